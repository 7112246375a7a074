/* A node whose wall clock is off: LD_PRELOAD adds DRILL_WALL_OFFSET_S to the real time.
 * Monotonic clocks and the times of files stay what the kernel says: as on a machine whose clock
 * is wrong, durations are right and dates are not. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset(void)
{
    const char *text = getenv("DRILL_WALL_OFFSET_S");
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where)
        *where = now.tv_sec;
    return now.tv_sec;
}
