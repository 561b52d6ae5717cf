/* Sums that relations between tensors are told from; see relation_loop.py. C99 with the vector types
 * of GCC and Clang; no Python headers.
 *
 * They are those of metrics.signatures but for the order of adding. What is not finite leaves a sum
 * that is none either, and numpy goes over it again.
 */
#include "loops.h"

#define MOST_AXES 32
#define LINE 16  /* floats of a line of the cache */
#define TILE 64  /* rows and columns that stay in the first cache, and in its table of pages */
#define WIDE 1024 /* columns at a time where neighbours are neighbours on both sides */
#define AHEAD 32 /* columns: far ones are asked for before they are needed. Measured. */

/* What is known of a run of values; relation_loop.py has the same list. */
struct run {
    double total, square; /* of the distances from a shift */
    double low, high;
};

INLINE double sum_of(reals a)
{
    return (a[0] + a[1]) + (a[2] + a[3]);
}

INLINE void sums(const void *values, int64_t count, double shift, struct run *run,
                 const int doubles)
{
    const reals none = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    const reals by = {shift, shift, shift, shift};
    reals total[2] = {{0}}, square[2] = {{0}}, low[2] = {none, none}, high[2] = {none, none};
    int64_t i = 0;

    for (; i + 2 * HALF <= count; i += 2 * HALF)
        for (int k = 0; k < 2; k++) {
            const reals found = four(values, i + k * HALF, doubles), apart = found - by;
            total[k] += apart;
            square[k] += apart * apart;
            low[k] = larger(-found, low[k]);
            high[k] = larger(found, high[k]);
        }
    run->total = sum_of(total[0] + total[1]);
    run->square = sum_of(square[0] + square[1]);
    run->low = -largest(larger(low[0], low[1]));
    run->high = largest(larger(high[0], high[1]));
    for (; i < count; i++) {
        const double one = value(values, i, doubles), apart = one - shift;
        run->total += apart;
        run->square += apart * apart;
        run->low = one < run->low ? one : run->low;
        run->high = one > run->high ? one : run->high;
    }
}

/* Sums of the distances of values from `shift`, and the smallest and largest of them. */
VECTORISED void shifted_sums(const void *values, int64_t count, int doubles, double shift,
                             struct run *run)
{
    if (doubles)
        sums(values, count, shift, run, 1);
    else
        sums(values, count, shift, run, 0);
}

/* Two arrays of rows and columns; strides in elements. */
struct plane {
    const char *left, *right;
    int64_t rows, columns;
    const int64_t *of_left, *of_right;
};

INLINE double apart_at(const struct plane *p, int64_t row, int64_t column, const int doubles)
{
    return value(p->left, row * p->of_left[0] + column * p->of_left[1], doubles) -
           value(p->right, row * p->of_right[0] + column * p->of_right[1], doubles);
}

/* Four neighbours along the columns. */
INLINE reals four_of(const void *values, int64_t from, int64_t step, const int doubles,
                     const int is_near)
{
    if (is_near)
        return four(values, from, doubles);
    if (doubles) {
        const double *of = (const double *)values + from;
        const reals found = {of[0], of[step], of[2 * step], of[3 * step]};
        return found;
    }
    const float *of = (const float *)values + from;
    const floats found = {of[0], of[step], of[2 * step], of[3 * step]};
    return __builtin_convertvector(found, reals);
}

/* Four rows of four columns of floats of which neighbours along the rows are neighbours in memory. */
INLINE void turned(reals rows[HALF], const float *values, int64_t step)
{
    floats column[HALF];

    for (int k = 0; k < HALF; k++)
        memcpy(&column[k], values + k * step, sizeof column[k]);
    const floats first = SHUFFLED(column[0], column[1], 0, 4, 1, 5),
                 second = SHUFFLED(column[2], column[3], 0, 4, 1, 5),
                 third = SHUFFLED(column[0], column[1], 2, 6, 3, 7),
                 fourth = SHUFFLED(column[2], column[3], 2, 6, 3, 7);
    rows[0] = __builtin_convertvector(SHUFFLED(first, second, 0, 1, 4, 5), reals);
    rows[1] = __builtin_convertvector(SHUFFLED(first, second, 2, 3, 6, 7), reals);
    rows[2] = __builtin_convertvector(SHUFFLED(third, fourth, 0, 1, 4, 5), reals);
    rows[3] = __builtin_convertvector(SHUFFLED(third, fourth, 2, 3, 6, 7), reals);
}

/* Along which axis neighbours are neighbours in memory. */
enum lying { APART, ALONG_ROWS, ALONG_COLUMNS };

INLINE double square_of(const struct plane *p, const int doubles, const enum lying left,
                        const enum lying right)
{
    const int64_t width = doubles ? sizeof(double) : sizeof(float), whole = p->columns / HALF * HALF;
    const int64_t lines = left == ALONG_COLUMNS ? HALF : LINE;
    const int64_t most = left == ALONG_COLUMNS ? WIDE : TILE;
    double total = 0.0;

    for (int64_t tile = 0; tile < p->rows; tile += TILE)
        for (int64_t begin = 0; begin < whole; begin += most) {
            const int64_t end = whole - begin < most ? whole : begin + most;
            const int64_t bottom = p->rows - tile < TILE ? p->rows : tile + TILE;
            reals square[HALF] = {{0}};
            for (int64_t first = tile; first < bottom; first += lines) {
                const int64_t last = bottom - first < lines ? bottom : first + lines;
                for (int64_t column = begin; column < end; column += HALF) {
                    if (left != ALONG_COLUMNS && column + AHEAD + HALF <= whole)
                        for (int k = 0; k < HALF; k++)
                            __builtin_prefetch(p->left +
                                               width * (first * p->of_left[0] +
                                                        (column + AHEAD + k) * p->of_left[1]));
                    for (int64_t row = first; row < last; row += HALF) {
                        const int64_t count = last - row < HALF ? last - row : HALF;
                        const int64_t from = row * p->of_left[0] + column * p->of_left[1];
                        const int at_once = left == ALONG_ROWS && !doubles && count == HALF;
                        reals ours[HALF];
                        if (at_once)
                            turned(ours, (const float *)p->left + from, p->of_left[1]);
                        for (int64_t k = 0; k < count; k++) {
                            const reals theirs = four_of(
                                p->right, (row + k) * p->of_right[0] + column * p->of_right[1],
                                p->of_right[1], doubles, right == ALONG_COLUMNS);
                            const reals apart =
                                (at_once ? ours[k]
                                         : four_of(p->left, from + k * p->of_left[0], p->of_left[1],
                                                   doubles, left == ALONG_COLUMNS)) -
                                theirs;
                            square[k] += apart * apart;
                        }
                    }
                }
            }
            total += sum_of((square[0] + square[1]) + (square[2] + square[3]));
        }
    for (int64_t row = 0; row < p->rows; row++)
        for (int64_t column = whole; column < p->columns; column++) {
            const double apart = apart_at(p, row, column, doubles);
            total += apart * apart;
        }
    return total;
}

VECTORISED static double square_of_floats(const struct plane *p)
{
    if (p->of_right[1] != 1)
        return square_of(p, 0, APART, APART);
    if (p->of_left[1] == 1)
        return square_of(p, 0, ALONG_COLUMNS, ALONG_COLUMNS);
    return p->of_left[0] == 1 ? square_of(p, 0, ALONG_ROWS, ALONG_COLUMNS)
                              : square_of(p, 0, APART, ALONG_COLUMNS);
}

VECTORISED static double square_of_doubles(const struct plane *p)
{
    if (p->of_right[1] != 1)
        return square_of(p, 1, APART, APART);
    return p->of_left[1] == 1 ? square_of(p, 1, ALONG_COLUMNS, ALONG_COLUMNS)
                              : square_of(p, 1, APART, ALONG_COLUMNS);
}

/* The square of the distance of two arrays of two axes at least; strides in elements. Fastest where the
 * last axis is that of neighbours on the right, and the one before that of neighbours on the left. */
double squared_distance(const char *left, const char *right, int doubles, int64_t axes,
                        const int64_t *shape, const int64_t *of_left, const int64_t *of_right)
{
    const int64_t outer = axes - 2, width = doubles ? sizeof(double) : sizeof(float);
    struct plane plane = {left, right, shape[outer], shape[outer + 1], of_left + outer,
                          of_right + outer};
    int64_t index[MOST_AXES] = {0};
    double total = 0.0;

    for (;;) {
        int64_t axis = outer - 1;
        total += doubles ? square_of_doubles(&plane) : square_of_floats(&plane);
        for (; axis >= 0; axis--) {
            plane.left += width * of_left[axis];
            plane.right += width * of_right[axis];
            if (++index[axis] < shape[axis])
                break;
            plane.left -= width * shape[axis] * of_left[axis];
            plane.right -= width * shape[axis] * of_right[axis];
            index[axis] = 0;
        }
        if (axis < 0)
            return total;
    }
}
