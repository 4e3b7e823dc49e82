// One binary for every x86-64: the loader picks the widest clone the machine has. Elsewhere (arm64, musl, Windows) the
// plain loop is already vectorised for the baseline.
#pragma once
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define TOMBOLA_SANITIZED 1  // one clone, and fewer loops unrolled: instrumented code takes minutes to compile
#else
#define TOMBOLA_SANITIZED 0
#endif
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && !TOMBOLA_SANITIZED
#define TOMBOLA_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define TOMBOLA_CLONES
#endif
