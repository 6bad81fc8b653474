// Functions that glibc has in a new version, or at all, only since 2.18, so that the file needs no newer
// glibc than 2.17. The linker replaces calls of f by __wrap_f; see link.

#define _GNU_SOURCE // RTLD_DEFAULT
#include <dlfcn.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#endif

// glibc 2.29. The old versions differ only in errors: they also report them to the functions of SVID.
#define OLD_VERSION(name) __asm__(".symver old_" #name "," #name "@" OLDEST)
#define OLD_FUNCTION(name)                                                                            \
    extern double old_##name(double);                                                                 \
    OLD_VERSION(name);                                                                                \
    double __wrap_##name(double x) { return old_##name(x); }

OLD_FUNCTION(exp)
OLD_FUNCTION(exp2)
OLD_FUNCTION(log)
OLD_FUNCTION(log2)

extern double old_pow(double, double);
OLD_VERSION(pow);
double __wrap_pow(double x, double y) { return old_pow(x, y); }

// glibc 2.28. On 64-bit machines it is another name of fcntl.
int __wrap_fcntl64(int file, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return fcntl(file, command, argument);
}

// glibc 2.27, 2.26 and 2.25. An older kernel without the call reports ENOSYS.
int __wrap_memfd_create(const char *name, unsigned flags) {
    return syscall(SYS_memfd_create, name, flags);
}

ssize_t __wrap_copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t size,
                               unsigned flags) {
    return syscall(SYS_copy_file_range, from, from_at, to, to_at, size, flags);
}

// The kernel takes the offset in two halves, of which 64-bit machines use the first one.
ssize_t __wrap_preadv64v2(int file, const struct iovec *parts, int count, off64_t at, int flags) {
    return syscall(SYS_preadv2, file, parts, (long)count, at, 0L, flags);
}

ssize_t __wrap_pwritev64v2(int file, const struct iovec *parts, int count, off64_t at, int flags) {
    return syscall(SYS_pwritev2, file, parts, (long)count, at, 0L, flags);
}

ssize_t __wrap_getrandom(void *buffer, size_t size, unsigned flags) {
    return syscall(SYS_getrandom, buffer, size, flags);
}

// OpenSSL asks for at most 256 bytes, which the kernel returns at once.
int __wrap_getentropy(void *buffer, size_t size) {
    return syscall(SYS_getrandom, buffer, size, 0) == (long)size ? 0 : -1;
}

// What explicit_bzero is compiled to; the barrier keeps the compiler from removing the call.
void __wrap___explicit_bzero_chk(void *buffer, size_t size, size_t buffer_size) {
    if (size > buffer_size) {
        __builtin_trap();
    }
    memset(buffer, 0, size);
    __asm__ volatile("" : : "r"(buffer) : "memory");
}

// glibc 2.30. CPython waits for locks until a time of the monotonic clock; without sem_clockwait it
// uses the real-time clock, so that setting the clock changes the wait, and so does this.
typedef int wait_function(sem_t *, clockid_t, const struct timespec *);
static wait_function *newer_sem_clockwait;

__attribute__((constructor)) static void find_newer_functions(void) {
    newer_sem_clockwait = (wait_function *)dlsym(RTLD_DEFAULT, "sem_clockwait");
}

int __wrap_sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until) {
    if (newer_sem_clockwait != NULL) {
        return newer_sem_clockwait(semaphore, clock, until);
    }
    struct timespec now, real;
    if (clock_gettime(clock, &now) || clock_gettime(CLOCK_REALTIME, &real)) {
        return -1;
    }
    real.tv_sec += until->tv_sec - now.tv_sec;
    real.tv_nsec += until->tv_nsec - now.tv_nsec;
    if (real.tv_nsec < 0) {
        real.tv_nsec += 1000000000;
        real.tv_sec--;
    } else if (real.tv_nsec >= 1000000000) {
        real.tv_nsec -= 1000000000;
        real.tv_sec++;
    }
    return sem_timedwait(semaphore, &real);
}
