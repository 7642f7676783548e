/* A disk that fails on demand: loaded before libc (LD_PRELOAD), it counts what a process does to files below one folder,
   and lets one step fail, or all from one on. Python, SQLite and every library write through these functions. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { FDS = 65536 };
static char folder[4096];
static int failing_step, failing_errno, for_good, halves; /* Step 0: none. */
static struct { int steps; char failed[4092]; } own, *seen = &own;
#define steps (seen->steps)
static unsigned char ours[FDS];

/* Called through ctypes in the process that shall fail. `shared` is memory of 4096 bytes that its parent looks at. */
void disk_arm(const char *below, int step, int error, int stays, int half, void *shared) {
    snprintf(folder, sizeof folder, "%s", below);
    failing_step = step, failing_errno = error, for_good = stays, halves = half;
    seen = shared;
}

static int below(const char *path) {
    if (!folder[0] || !path) return 0;
    char whole[8192];
    if (path[0] == '/') snprintf(whole, sizeof whole, "%s", path);
    else {
        char here[4096];
        if (!getcwd(here, sizeof here)) return 0;
        snprintf(whole, sizeof whole, "%s/%s", here, path);
    }
    return !strncmp(whole, folder, strlen(folder));
}

/* One more step; whether it fails. */
static int fails(const char *what, const char *path) {
    ++steps;
    if (steps == failing_step) snprintf(seen->failed, sizeof seen->failed, "%s %s", what, path);
    if (!failing_step || halves || (for_good ? steps < failing_step : steps != failing_step)) return 0;
    errno = failing_errno;
    return 1;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int opened(int fd, int is_ours) {
    if (fd >= 0 && fd < FDS) ours[fd] = (unsigned char)is_ours;
    return fd;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        int writes = (flags & (O_WRONLY | O_RDWR)) && below(path); \
        if (writes && fails("open", path)) return -1; \
        return opened(real(path, flags, mode), writes); \
    }
#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        int writes = at == AT_FDCWD && (flags & (O_WRONLY | O_RDWR)) && below(path); \
        if (writes && fails("open", path)) return -1; \
        return opened(real(at, path, flags, mode), writes); \
    }
OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64)

int close(int fd) {
    REAL(close);
    if (fd >= 0 && fd < FDS) ours[fd] = 0;
    return real(fd);
}

static int is_ours(int fd) { return fd >= 0 && fd < FDS && ours[fd]; }
/* A short write: half of it, once, as a signal or a full quota leaves it. The caller has to write the rest. */
static size_t half_of(size_t size) { return halves && steps == failing_step && size > 1 ? size / 2 : size; }

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    if (is_ours(fd)) {
        if (fails("write", "")) return -1;
        size = half_of(size);
    }
    return real(fd, data, size);
}
#define PWRITE(name) \
    ssize_t name(int fd, const void *data, size_t size, off_t at) { \
        REAL(name); \
        if (is_ours(fd)) { \
            if (fails("pwrite", "")) return -1; \
            size = half_of(size); \
        } \
        return real(fd, data, size, at); \
    }
PWRITE(pwrite) PWRITE(pwrite64)

#define ON_FILE(name) int name(int fd) { REAL(name); return is_ours(fd) && fails(#name, "") ? -1 : real(fd); }
ON_FILE(fsync) ON_FILE(fdatasync)
#define TRUNCATE(name) int name(int fd, off_t to) { REAL(name); return is_ours(fd) && fails(#name, "") ? -1 : real(fd, to); }
TRUNCATE(ftruncate) TRUNCATE(ftruncate64)

int rename(const char *from, const char *to) {
    REAL(rename);
    return below(to) && fails("rename", to) ? -1 : real(from, to);
}
int renameat(int from_at, const char *from, int to_at, const char *to) {
    REAL(renameat);
    return below(to) && fails("rename", to) ? -1 : real(from_at, from, to_at, to);
}
int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    REAL(linkat);
    return below(to) && fails("link", to) ? -1 : real(from_at, from, to_at, to, flags);
}
int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return below(path) && fails("mkdir", path) ? -1 : real(path, mode);
}
/* Only a disk that became read-only refuses to remove: room can be made on a full one. */
int unlink(const char *path) {
    REAL(unlink);
    if (below(path) && failing_errno == EROFS && for_good && failing_step && steps >= failing_step) {
        errno = EROFS;
        return -1;
    }
    return real(path);
}
int unlinkat(int at, const char *path, int flags) {
    REAL(unlinkat);
    if (below(path) && failing_errno == EROFS && for_good && failing_step && steps >= failing_step) {
        errno = EROFS;
        return -1;
    }
    return real(at, path, flags);
}
