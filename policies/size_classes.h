/* policies/size_classes.h - the size classes of jemalloc 5: what a request is rounded to, and its slab.
 *
 * Above 4 quanta each power of two is cut into four equal steps, so that rounding wastes at most about a
 * fifth:
 *
 *     64   80  96  112  128   160  192  224  256   320  384  448  512 ...      (quantum 16)
 *          \-- step 16 --/    \--- step 32 ---/    \--- step 64 ---/
 *
 * Below that the classes are the multiples of the quantum, and 8. Source: jemalloc 5.3, manual page, section
 * "Implementation notes", table 1; the slab rule: src/sc.c. A class below 4 pages is small: its blocks are
 * cut from a slab, the fewest pages that they fill without a remainder. Larger ones are whole pages.
 */
#ifndef ASIM_POLICIES_SIZE_CLASSES_H
#define ASIM_POLICIES_SIZE_CLASSES_H

#include <stdint.h>

#define ASIM_JE_LARGEST (UINT64_C(7) << 60) /* the table's last class, 7 EiB */

/* The least class of at least size bytes (1 to ASIM_JE_LARGEST); 0 for any other size. quantum: a power of
 * two of at least 16. */
uint64_t asim_je_class(uint64_t size, uint64_t quantum);

/* The class's place in that table, counted from 0, in constant time; size as above and not 0. */
unsigned asim_je_number(uint64_t size, uint64_t quantum);

/* Bytes of the slab of a small class: the least common multiple of both. page: a power of two, and more than
 * a fourth of the class. */
uint64_t asim_je_slab(uint64_t size_class, uint64_t page);

#endif
