/* Counts a program's allocations and copies, for `meridian bench costs`: loaded before libc, it hands
 * each call on and adds to counters in the file that MERIDIAN_COUNTS names, which child processes
 * share. Copies that a compiler writes inline, of a few bytes, are not seen. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* In the order in which the bench reads them. */
static struct counts { unsigned long calls, bytes, copies, copied; } none, *counts = &none;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("MERIDIAN_COUNTS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof(struct counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) counts = page;
    close(file);
}

static void add(unsigned long *calls, unsigned long *bytes, size_t size) {
    __atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(bytes, size, __ATOMIC_RELAXED);
}

#define ALLOCATED(size) add(&counts->calls, &counts->bytes, size)

void *malloc(size_t size) { ALLOCATED(size); return __libc_malloc(size); }
void *calloc(size_t n, size_t size) { ALLOCATED(n * size); return __libc_calloc(n, size); }
void *realloc(void *old, size_t size) { ALLOCATED(size); return __libc_realloc(old, size); }
void *memalign(size_t to, size_t size) { ALLOCATED(size); return __libc_memalign(to, size); }
void *aligned_alloc(size_t to, size_t size) { ALLOCATED(size); return __libc_memalign(to, size); }

int posix_memalign(void **out, size_t to, size_t size) {
    ALLOCATED(size);
    *out = __libc_memalign(to, size);
    return *out ? 0 : ENOMEM;
}

/* `volatile` keeps the compiler from making a call to memcpy of the loop. */
static void *copy(void *to, const void *from, size_t size) {
    volatile unsigned char *t = to;
    const unsigned char *f = from;
    if ((const unsigned char *)to <= f || (const unsigned char *)to >= f + size)
        for (size_t i = 0; i < size; i++) t[i] = f[i];
    else
        for (size_t i = size; i-- > 0;) t[i] = f[i];
    add(&counts->copies, &counts->copied, size);
    return to;
}

void *memcpy(void *to, const void *from, size_t size) { return copy(to, from, size); }
void *memmove(void *to, const void *from, size_t size) { return copy(to, from, size); }
