// LD_PRELOAD: once FULL_DISK_AFTER bytes are written to files, no write succeeds. Without the variable nothing fails.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static long written;

static int full(int file, size_t bytes) {
    const char *most = getenv("FULL_DISK_AFTER");
    struct stat state;
    if (!most || file <= 2 || fstat(file, &state) || !S_ISREG(state.st_mode)) return 0;
    if (__atomic_add_fetch(&written, (long)bytes, __ATOMIC_SEQ_CST) <= atol(most)) return 0;
    errno = ENOSPC;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *data, size_t bytes) {
    return full(file, bytes) ? -1 : REAL(write)(file, data, bytes);
}
ssize_t pwrite(int file, const void *data, size_t bytes, off_t at) {
    return full(file, bytes) ? -1 : REAL(pwrite)(file, data, bytes, at);
}
ssize_t pwrite64(int file, const void *data, size_t bytes, off64_t at) {
    return full(file, bytes) ? -1 : REAL(pwrite64)(file, data, bytes, at);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += parts[i].iov_len;
    return full(file, bytes) ? -1 : REAL(writev)(file, parts, count);
}
size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
    return full(fileno(file), size * count) ? 0 : REAL(fwrite)(data, size, count, file);
}
