//go:build !noasm

#include "textflag.h"

// bswap reverses the bytes of each 16: GHASH and the counter are big-endian.
DATA bswap<>+0(SB)/8, $0x08090a0b0c0d0e0f
DATA bswap<>+8(SB)/8, $0x0001020304050607
GLOBL bswap<>(SB), RODATA|NOPTR, $16

// poly is x^128 + x^7 + x^2 + x + 1 in the order of bits that GHASH has.
DATA poly<>+0(SB)/8, $0x0000000000000001
DATA poly<>+8(SB)/8, $0xc200000000000000
GLOBL poly<>(SB), RODATA|NOPTR, $16

// first and four count the blocks of a vector, and from one vector to the next.
DATA first<>+0(SB)/8, $0
DATA first<>+8(SB)/8, $0
DATA first<>+16(SB)/8, $1
DATA first<>+24(SB)/8, $0
DATA first<>+32(SB)/8, $2
DATA first<>+40(SB)/8, $0
DATA first<>+48(SB)/8, $3
DATA first<>+56(SB)/8, $0
GLOBL first<>(SB), RODATA|NOPTR, $64

DATA four<>+0(SB)/8, $4
DATA four<>+8(SB)/8, $0
GLOBL four<>(SB), RODATA|NOPTR, $16

#define EXPAND(rcon) \
	VAESKEYGENASSIST $rcon, X0, X1; \
	VPSHUFD $0xff, X1, X1;          \
	VPSLLDQ $4, X0, X2;             \
	VPXOR   X2, X0, X0;             \
	VPSLLDQ $4, X2, X2;             \
	VPXOR   X2, X0, X0;             \
	VPSLLDQ $4, X2, X2;             \
	VPXOR   X2, X0, X0;             \
	VPXOR   X1, X0, X0;             \
	ADDQ    $16, BX;                \
	VMOVDQU X0, (BX)

#define ROUND(key) \
	VAESENC key, Z0, Z0; \
	VAESENC key, Z1, Z1; \
	VAESENC key, Z2, Z2; \
	VAESENC key, Z3, Z3

// LOAD takes the arguments: Z8 the counters, Z9 bswap, Z10 poly, X11 the hash,
// Z12 to Z15 the powers, Z16 to Z26 the round keys, Z27 four.
#define LOAD \
	MOVQ            rounds+0(FP), AX;       \
	VBROADCASTI32X4 (AX), Z16;              \
	VBROADCASTI32X4 16(AX), Z17;            \
	VBROADCASTI32X4 32(AX), Z18;            \
	VBROADCASTI32X4 48(AX), Z19;            \
	VBROADCASTI32X4 64(AX), Z20;            \
	VBROADCASTI32X4 80(AX), Z21;            \
	VBROADCASTI32X4 96(AX), Z22;            \
	VBROADCASTI32X4 112(AX), Z23;           \
	VBROADCASTI32X4 128(AX), Z24;           \
	VBROADCASTI32X4 144(AX), Z25;           \
	VBROADCASTI32X4 160(AX), Z26;           \
	MOVQ            powers+8(FP), AX;       \
	VMOVDQU64       (AX), Z12;              \
	VMOVDQU64       64(AX), Z13;            \
	VMOVDQU64       128(AX), Z14;           \
	VMOVDQU64       192(AX), Z15;           \
	MOVQ            hash+16(FP), BX;        \
	VMOVDQU         (BX), X11;              \
	MOVQ            counter+24(FP), AX;     \
	VBROADCASTI32X4 (AX), Z8;               \
	VPADDD          first<>(SB), Z8, Z8;    \
	VBROADCASTI32X4 bswap<>(SB), Z9;        \
	VBROADCASTI32X4 poly<>(SB), Z10;        \
	VBROADCASTI32X4 four<>(SB), Z27;        \
	MOVQ            dst+32(FP), DI;         \
	MOVQ            src+40(FP), SI;         \
	MOVQ            groups+48(FP), CX

// CRYPT loads 256 bytes into Z4 to Z7 and puts their en- or decryption into Z0
// to Z3 and to dst.
#define CRYPT \
	VPSHUFB     Z9, Z8, Z0;     \
	VPADDD      Z27, Z8, Z8;    \
	VPSHUFB     Z9, Z8, Z1;     \
	VPADDD      Z27, Z8, Z8;    \
	VPSHUFB     Z9, Z8, Z2;     \
	VPADDD      Z27, Z8, Z8;    \
	VPSHUFB     Z9, Z8, Z3;     \
	VPADDD      Z27, Z8, Z8;    \
	VPXORQ      Z16, Z0, Z0;    \
	VPXORQ      Z16, Z1, Z1;    \
	VPXORQ      Z16, Z2, Z2;    \
	VPXORQ      Z16, Z3, Z3;    \
	ROUND(Z17);                 \
	ROUND(Z18);                 \
	ROUND(Z19);                 \
	ROUND(Z20);                 \
	ROUND(Z21);                 \
	ROUND(Z22);                 \
	ROUND(Z23);                 \
	ROUND(Z24);                 \
	ROUND(Z25);                 \
	VAESENCLAST Z26, Z0, Z0;    \
	VAESENCLAST Z26, Z1, Z1;    \
	VAESENCLAST Z26, Z2, Z2;    \
	VAESENCLAST Z26, Z3, Z3;    \
	VMOVDQU64   (SI), Z4;       \
	VMOVDQU64   64(SI), Z5;     \
	VMOVDQU64   128(SI), Z6;    \
	VMOVDQU64   192(SI), Z7;    \
	VPXORQ      Z4, Z0, Z0;     \
	VPXORQ      Z5, Z1, Z1;     \
	VPXORQ      Z6, Z2, Z2;     \
	VPXORQ      Z7, Z3, Z3;     \
	VMOVDQU64   Z0, (DI);       \
	VMOVDQU64   Z1, 64(DI);     \
	VMOVDQU64   Z2, 128(DI);    \
	VMOVDQU64   Z3, 192(DI);    \
	ADDQ        $256, SI;       \
	ADDQ        $256, DI

// MORE adds the product of a vector of blocks and one of powers.
#define MORE(c, h, t0, t1) \
	VPSHUFB    Z9, c, c;               \
	VPCLMULQDQ $0x00, h, c, t0;        \
	VPXORQ     t0, Z28, Z28;           \
	VPCLMULQDQ $0x11, h, c, t1;        \
	VPXORQ     t1, Z30, Z30;           \
	VPCLMULQDQ $0x01, h, c, t0;        \
	VPCLMULQDQ $0x10, h, c, t1;        \
	VPTERNLOGD $0x96, t0, t1, Z29

// HASH takes 256 bytes of ciphertext into the hash: the four vectors c, of which
// and of t nothing remains. Low, middle and high products gather in Z28 to Z30
// and are reduced once.
#define HASH(c0, c1, c2, c3, t0, t1) \
	VPSHUFB       Z9, c0, c0;          \
	VPXORQ        Z11, c0, c0;         \
	VPCLMULQDQ    $0x00, Z12, c0, Z28; \
	VPCLMULQDQ    $0x01, Z12, c0, Z29; \
	VPCLMULQDQ    $0x10, Z12, c0, t0;  \
	VPCLMULQDQ    $0x11, Z12, c0, Z30; \
	VPXORQ        t0, Z29, Z29;        \
	MORE(c1, Z13, t0, t1);             \
	MORE(c2, Z14, t0, t1);             \
	MORE(c3, Z15, t0, t1);             \
	VPCLMULQDQ    $0x01, Z28, Z10, t0; \
	VPSHUFD       $0x4e, Z28, Z28;     \
	VPTERNLOGD    $0x96, t0, Z28, Z29; \
	VPCLMULQDQ    $0x01, Z29, Z10, t0; \
	VPSHUFD       $0x4e, Z29, Z29;     \
	VPTERNLOGD    $0x96, t0, Z29, Z30; \
	VEXTRACTI64X4 $1, Z30, Y31;        \
	VPXORQ        Y31, Y30, Y30;       \
	VEXTRACTI64X2 $1, Y30, X31;        \
	VPXORQ        X31, X30, X11

// func expandKey(rounds *[176]byte, key *[16]byte)
TEXT ·expandKey(SB), NOSPLIT, $0-16
	MOVQ    rounds+0(FP), BX
	MOVQ    key+8(FP), AX
	VMOVDQU (AX), X0
	VMOVDQU X0, (BX)
	EXPAND(0x01)
	EXPAND(0x02)
	EXPAND(0x04)
	EXPAND(0x08)
	EXPAND(0x10)
	EXPAND(0x20)
	EXPAND(0x40)
	EXPAND(0x80)
	EXPAND(0x1b)
	EXPAND(0x36)
	VPXOR   X0, X0, X0
	VPXOR   X1, X1, X1
	VPXOR   X2, X2, X2
	RET

// func encryptBlock(rounds *[176]byte, dst, src *[16]byte)
TEXT ·encryptBlock(SB), NOSPLIT, $0-24
	MOVQ        rounds+0(FP), AX
	MOVQ        dst+8(FP), DI
	MOVQ        src+16(FP), SI
	VMOVDQU     (SI), X0
	VPXOR       (AX), X0, X0
	VAESENC     16(AX), X0, X0
	VAESENC     32(AX), X0, X0
	VAESENC     48(AX), X0, X0
	VAESENC     64(AX), X0, X0
	VAESENC     80(AX), X0, X0
	VAESENC     96(AX), X0, X0
	VAESENC     112(AX), X0, X0
	VAESENC     128(AX), X0, X0
	VAESENC     144(AX), X0, X0
	VAESENCLAST 160(AX), X0, X0
	VMOVDQU     X0, (DI)
	RET

// func multiply(dst, a, b *[2]uint64)
TEXT ·multiply(SB), NOSPLIT, $0-24
	MOVQ       dst+0(FP), DI
	MOVQ       a+8(FP), SI
	MOVQ       b+16(FP), DX
	VMOVDQU    (SI), X0
	VMOVDQU    (DX), X1
	VMOVDQU    poly<>(SB), X2
	VPCLMULQDQ $0x00, X0, X1, X3
	VPCLMULQDQ $0x01, X0, X1, X4
	VPCLMULQDQ $0x10, X0, X1, X5
	VPCLMULQDQ $0x11, X0, X1, X6
	VPXOR      X5, X4, X4
	VPCLMULQDQ $0x01, X3, X2, X5
	VPSHUFD    $0x4e, X3, X3
	VPXOR      X3, X4, X4
	VPXOR      X5, X4, X4
	VPCLMULQDQ $0x01, X4, X2, X5
	VPSHUFD    $0x4e, X4, X4
	VPXOR      X4, X6, X6
	VPXOR      X5, X6, X6
	VMOVDQU    X6, (DI)
	RET

// func sealGroups(rounds *[176]byte, powers *[16][2]uint64, hash *[2]uint64, counter *[16]byte, dst, src *byte, groups int)
TEXT ·sealGroups(SB), NOSPLIT, $0-56
	LOAD

seal:
	CRYPT
	HASH(Z0, Z1, Z2, Z3, Z4, Z5)
	DECQ CX
	JNZ  seal
	VMOVDQU X11, (BX)
	VZEROALL
	RET

// func openGroups(rounds *[176]byte, powers *[16][2]uint64, hash *[2]uint64, counter *[16]byte, dst, src *byte, groups int)
TEXT ·openGroups(SB), NOSPLIT, $0-56
	LOAD

open:
	CRYPT
	HASH(Z4, Z5, Z6, Z7, Z0, Z1)
	DECQ CX
	JNZ  open
	VMOVDQU X11, (BX)
	VZEROALL
	RET
