/* Descendants that left their group end; children from before stay. */
#include "base/orphans.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

static pid_t sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    assert_true(pid > 0);
    return pid;
}

/* A child whose own child leaves for a session of its own, tells us that it did, and sleeps. */
static pid_t launcher(int told)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (fork() == 0) {
            setsid();
            if (fork() == 0 || write(told, "x", 1) != 1)
                pause();
            pause();
        }
        pause();
    }
    assert_true(pid > 0);
    return pid;
}

static void descendants_of_other_sessions_end(void **state)
{
    (void)state;
    int told[2];
    char byte;
    const pid_t old = sleeper(); /* before the pipe, or it would hold it */
    assert_int_equal(pipe(told), 0);
    struct orphans o = orphans_adopt();
    assert_int_equal(o.n, 1);
    const pid_t child = launcher(told[1]);
    close(told[1]);
    assert_int_equal(read(told[0], &byte, 1), 1);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    orphans_end(&o);
    assert_int_equal(read(told[0], &byte, 1), 0); /* all that held the pipe are gone */
    close(told[0]);
    assert_int_equal(kill(old, 0), 0);
    kill(old, SIGKILL);
    assert_int_equal(waitpid(old, NULL, 0), old);
}

static void without_orphans_nothing_happens(void **state)
{
    (void)state;
    struct orphans o = orphans_adopt();
    orphans_end(&o);
    assert_null(o.before);
    orphans_end(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(descendants_of_other_sessions_end),
                                       TEST(without_orphans_nothing_happens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
