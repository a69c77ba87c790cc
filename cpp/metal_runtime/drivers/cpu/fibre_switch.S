// qwisp_fibre_switch(void **from, void *to): saves the callee-saved registers and the stack pointer in *from and
// continues where `to` was saved. qwisp_fibre_start: first return address of a new fibre; calls its entry, which
// never returns. The floating-point environment is the dispatch's and is not switched.
#if defined(__APPLE__)
#define SYMBOL(name) _##name
#define HIDDEN(name) .private_extern SYMBOL(name)
#define FUNCTION(name)
#else
#define SYMBOL(name) name
#define HIDDEN(name) .hidden name
#define FUNCTION(name) .type name, %function
#endif

    .text
    .globl SYMBOL(qwisp_fibre_switch)
    HIDDEN(qwisp_fibre_switch)
    FUNCTION(qwisp_fibre_switch)
    .globl SYMBOL(qwisp_fibre_start)
    HIDDEN(qwisp_fibre_start)
    FUNCTION(qwisp_fibre_start)
    .p2align 4

#if defined(__x86_64__)
SYMBOL(qwisp_fibre_switch):
    .cfi_startproc
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .cfi_endproc

SYMBOL(qwisp_fibre_start):
    .cfi_startproc
    .cfi_undefined rip
    movq %r12, %rdi
    callq *%r13
    ud2
    .cfi_endproc

#elif defined(__aarch64__)
SYMBOL(qwisp_fibre_switch):
    .cfi_startproc
    stp x19, x20, [sp, #-160]!
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp d14, d15, [sp, #144]
    ldp d12, d13, [sp, #128]
    ldp d10, d11, [sp, #112]
    ldp d8, d9, [sp, #96]
    ldp x29, x30, [sp, #80]
    ldp x27, x28, [sp, #64]
    ldp x25, x26, [sp, #48]
    ldp x23, x24, [sp, #32]
    ldp x21, x22, [sp, #16]
    ldp x19, x20, [sp], #160
    ret
    .cfi_endproc

SYMBOL(qwisp_fibre_start):
    .cfi_startproc
    .cfi_undefined x30
    mov x0, x19
    blr x20
    brk #1
    .cfi_endproc

#else
#error "qwisp_fibre_switch: x86-64 and aarch64 only"
#endif

#if defined(__ELF__)
    .section .note.GNU-stack,"",%progbits
#endif
