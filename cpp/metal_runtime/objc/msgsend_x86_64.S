// Message send. Layouts: internals.h (class: table at 16; table: byte mask at 0, buckets {selector, imp} from 16).
// Every hit is a tail jump with the caller's frame untouched, so arguments on the stack (MTL::Size) arrive and an
// exception unwinds from the method straight to the caller. Free registers: r10, r11.
    .text

    .macro LOOKUP self, selector, miss
    testq   \selector, \selector
    je      \miss
    movq    (\self), %r10
    movq    16(%r10), %r10
    movq    \selector, %r11
1:  andq    (%r10), %r11
    cmpq    \selector, 16(%r10,%r11)
    jne     2f
    jmpq    *24(%r10,%r11)
2:  cmpq    $0, 16(%r10,%r11)
    je      \miss
    addq    $16, %r11
    jmp     1b
    .endm

    // Saves every argument register, asks mtlshim_lookup_miss(self, selector) for an implementation, jumps to it.
    .macro MISS self, selector
    .cfi_remember_state
    pushq   %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq    %rsp, %rbp
    .cfi_def_cfa_register %rbp
    subq    $192, %rsp
    andq    $-16, %rsp
    movq    %rdi, 0(%rsp)
    movq    %rsi, 8(%rsp)
    movq    %rdx, 16(%rsp)
    movq    %rcx, 24(%rsp)
    movq    %r8, 32(%rsp)
    movq    %r9, 40(%rsp)
    movq    %rax, 48(%rsp)
    movaps  %xmm0, 64(%rsp)
    movaps  %xmm1, 80(%rsp)
    movaps  %xmm2, 96(%rsp)
    movaps  %xmm3, 112(%rsp)
    movaps  %xmm4, 128(%rsp)
    movaps  %xmm5, 144(%rsp)
    movaps  %xmm6, 160(%rsp)
    movaps  %xmm7, 176(%rsp)
    movq    \selector, %r11
    movq    \self, %rdi
    movq    %r11, %rsi
    call    mtlshim_lookup_miss
    movq    %rax, %r11
    movq    0(%rsp), %rdi
    movq    8(%rsp), %rsi
    movq    16(%rsp), %rdx
    movq    24(%rsp), %rcx
    movq    32(%rsp), %r8
    movq    40(%rsp), %r9
    movq    48(%rsp), %rax
    movaps  64(%rsp), %xmm0
    movaps  80(%rsp), %xmm1
    movaps  96(%rsp), %xmm2
    movaps  112(%rsp), %xmm3
    movaps  128(%rsp), %xmm4
    movaps  144(%rsp), %xmm5
    movaps  160(%rsp), %xmm6
    movaps  176(%rsp), %xmm7
    movq    %rbp, %rsp
    popq    %rbp
    .cfi_restore %rbp
    .cfi_def_cfa %rsp, 8
    jmpq    *%r11
    .cfi_restore_state
    .endm

    .globl  mtlshim_objc_msgSend, mtlshim_objc_msgSend_fpret, mtlshim_objc_msgSend_stret
    .hidden mtlshim_objc_msgSend, mtlshim_objc_msgSend_fpret, mtlshim_objc_msgSend_stret
    .hidden mtlshim_lookup_miss
    .type   mtlshim_objc_msgSend, @function
    .type   mtlshim_objc_msgSend_fpret, @function
    .type   mtlshim_objc_msgSend_stret, @function

    .p2align 6
mtlshim_objc_msgSend:
mtlshim_objc_msgSend_fpret:
    .cfi_startproc
    testq   %rdi, %rdi
    je      9f
    LOOKUP  %rdi, %rsi, 8f
8:  MISS    %rdi, %rsi
9:  testq   %rsi, %rsi              // nil answers 0 to everything, but a null selector is always a fault
    je      8b
    xorl    %eax, %eax
    xorl    %edx, %edx
    xorps   %xmm0, %xmm0
    xorps   %xmm1, %xmm1
    ret
    .cfi_endproc
    .size   mtlshim_objc_msgSend, .-mtlshim_objc_msgSend
    .size   mtlshim_objc_msgSend_fpret, .-mtlshim_objc_msgSend_fpret

    .p2align 6
mtlshim_objc_msgSend_stret:         // the result's address comes first; nil leaves the result as it was, as Apple's
    .cfi_startproc
    testq   %rsi, %rsi
    je      9f
    LOOKUP  %rsi, %rdx, 8f
8:  MISS    %rsi, %rdx
9:  testq   %rdx, %rdx
    je      8b
    movq    %rdi, %rax
    ret
    .cfi_endproc
    .size   mtlshim_objc_msgSend_stret, .-mtlshim_objc_msgSend_stret

    .section .note.GNU-stack, "", @progbits
