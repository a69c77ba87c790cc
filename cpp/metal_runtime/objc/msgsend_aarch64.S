// Message send. Layouts: internals.h (class: table at 16; table: byte mask at 0, buckets {selector, imp} from 16).
// Every hit is a tail jump with the caller's frame untouched, so an exception unwinds from the method straight to
// the caller. x0 is self, x1 the selector; x0-x8 and q0-q7 must survive; x9-x17 are free.
// The loads need no acquire: each address depends on the value loaded before it.
    .text
    .globl  mtlshim_objc_msgSend
    .hidden mtlshim_objc_msgSend
    .hidden mtlshim_lookup_miss
    .type   mtlshim_objc_msgSend, %function
    .p2align 6
mtlshim_objc_msgSend:
    .cfi_startproc
    cbz     x1, 8f
    cbz     x0, 9f
    ldr     x9, [x0]
    ldr     x9, [x9, #16]
    ldr     x10, [x9], #16
    and     x11, x1, x10
1:  add     x12, x9, x11
    ldp     x13, x17, [x12]
    cmp     x13, x1
    b.ne    2f
    br      x17
2:  cbz     x13, 8f
    add     x11, x11, #16
    and     x11, x11, x10
    b       1b

    // Saves every argument register, asks mtlshim_lookup_miss(self, selector) for an implementation, jumps to it.
8:  .cfi_remember_state
    stp     x29, x30, [sp, #-16]!
    .cfi_def_cfa_offset 16
    .cfi_offset x29, -16
    .cfi_offset x30, -8
    mov     x29, sp
    .cfi_def_cfa_register x29
    sub     sp, sp, #208
    stp     x0, x1, [sp]
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    str     x8, [sp, #64]
    stp     q0, q1, [sp, #80]
    stp     q2, q3, [sp, #112]
    stp     q4, q5, [sp, #144]
    stp     q6, q7, [sp, #176]
    bl      mtlshim_lookup_miss
    mov     x17, x0
    ldp     q6, q7, [sp, #176]
    ldp     q4, q5, [sp, #144]
    ldp     q2, q3, [sp, #112]
    ldp     q0, q1, [sp, #80]
    ldr     x8, [sp, #64]
    ldp     x6, x7, [sp, #48]
    ldp     x4, x5, [sp, #32]
    ldp     x2, x3, [sp, #16]
    ldp     x0, x1, [sp]
    mov     sp, x29
    .cfi_def_cfa_register sp
    ldp     x29, x30, [sp], #16
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    br      x17
    .cfi_restore_state

9:  mov     x1, #0                  // nil answers 0 to everything; x0 is 0 already
    movi    d0, #0
    movi    d1, #0
    movi    d2, #0
    movi    d3, #0
    ret
    .cfi_endproc
    .size   mtlshim_objc_msgSend, .-mtlshim_objc_msgSend

    .section .note.GNU-stack, "", %progbits
