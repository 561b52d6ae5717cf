/* What the loops share: vectors, the order of sums, and what the processor has. C99 with the vector
 * types of GCC and Clang; no Python headers. */
#ifndef LOOPS_H
#define LOOPS_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LEAF 128 /* elements whose sums are formed with 8 accumulators, as numpy does */
#define LANES 8
#define HALF 4

/* The baseline, an AVX2 and an AVX-512 version in one library, chosen when it is loaded or called. */
#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)
#define HAS_AVX512 1
#include <immintrin.h>
#define WITH_AVX2 __attribute__((target("avx2,f16c,popcnt")))
#define WITH_AVX512 __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,popcnt")))
#endif
#if defined(HAS_AVX512) && !defined(__clang__)
#define VECTORISED __attribute__((target_clones("avx2", "default")))
#else
#define VECTORISED
#endif
#define INLINE static inline __attribute__((always_inline))

typedef double reals __attribute__((vector_size(8 * HALF)));
typedef int64_t bits __attribute__((vector_size(8 * HALF)));
typedef float floats __attribute__((vector_size(4 * HALF)));

/* Four floats of two vectors, by number: 0 to 3 of the first, 4 to 7 of the second. */
#ifdef __clang__
#define SHUFFLED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t choice __attribute__((vector_size(4 * HALF)));
#define SHUFFLED(a, b, ...) __builtin_shuffle(a, b, (choice){__VA_ARGS__})
#endif

INLINE reals larger(reals a, reals b)
{
    bits mask = (bits)(a > b);
    return (reals)(((bits)a & mask) | ((bits)b & ~mask));
}

INLINE double largest(reals a)
{
    double top = a[0];
    for (int j = 1; j < HALF; j++)
        top = a[j] > top ? a[j] : top;
    return top;
}

/* One value, and four neighbours, of float64 where `doubles`, else of float32. */
INLINE double value(const void *values, int64_t at, int doubles)
{
    return doubles ? ((const double *)values)[at] : (double)((const float *)values)[at];
}

INLINE reals four(const void *values, int64_t at, int doubles)
{
    floats narrow;
    reals wide;

    if (doubles) {
        memcpy(&wide, (const double *)values + at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const float *)values + at, sizeof narrow);
    return __builtin_convertvector(narrow, reals);
}

/* metrics.partial.tree_sum: neighbours first, an odd one at the end waits for the next round. */
static inline double tree_sum(double *values, int64_t count)
{
    for (; count > 1; count = count / 2 + count % 2) {
        for (int64_t i = 0; i < count / 2; i++)
            values[i] = values[2 * i] + values[2 * i + 1];
        if (count % 2)
            values[count / 2] = values[count - 1];
    }
    return values[0];
}

#ifdef HAS_AVX512
/* The sum of 8 lanes, neighbours first. */
WITH_AVX512 INLINE double sum_of_lanes(__m512d lanes)
{
    __m256d pairs = _mm256_hadd_pd(_mm512_castpd512_pd256(lanes), _mm512_extractf64x4_pd(lanes, 1));
    __m128d halves = _mm_add_pd(_mm256_castpd256_pd128(pairs), _mm256_extractf128_pd(pairs, 1));
    return _mm_cvtsd_f64(halves) + _mm_cvtsd_f64(_mm_unpackhi_pd(halves, halves));
}
#endif

/* Whether the processor has what the AVX-512 versions need. */
static inline int has_avx512(void)
{
#ifdef HAS_AVX512
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#else
    return 0;
#endif
}

/* Versions of a loop, each wider than the one before, and the widest that the processor runs. */
enum version { PORTABLE_VERSION, AVX2_VERSION, AVX512_VERSION };

static inline enum version widest_version(void)
{
#ifdef HAS_AVX512
    if (has_avx512())
        return AVX512_VERSION;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"))
        return AVX2_VERSION;
#endif
    return PORTABLE_VERSION;
}

/* In fused.c: `count` values from element `from` on as float32, or as float64 where `doubles`: where they
 * lie, or in the memory given. */
const void *fetch_run(const char *data, int64_t code, int64_t from, int64_t count,
                      const float *tables, int doubles, enum version version, void *memory);
#endif
