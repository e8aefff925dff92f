#include "server/connections.h"

#include <sys/socket.h>
#include <unistd.h>

#include "support/support.h"

static struct conn *arrive(struct conns *all, const struct conn_limits *most, int fd, uint32_t from,
                           int64_t now_ns)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(from)};
    return conn_add(all, most, fd, (struct sockaddr *)&at, now_ns);
}

/* One address may not keep another out, and a new connection takes the place of the one that has
 * waited longest. */
static void a_new_one_takes_the_place_of_an_idle_one(void **state)
{
    (void)state;
    const struct conn_limits most = {4, 3};
    struct conns all = {0};
    struct conn *c[7];
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    for (int i = 0; i < 3; i++)
        c[i] = arrive(&all, &most, fds[0], 1, i);
    conn_has_request(c[0]);
    c[3] = arrive(&all, &most, fds[0], 1, 3); /* of that address: the oldest idle one goes */
    assert_true(c[1]->shut && !c[0]->shut && !c[2]->shut && !c[3]->over);
    c[4] = arrive(&all, &most, fds[0], 2, 4); /* of another: there is room */
    assert_true(all.open == 4 && !c[4]->over && !c[2]->shut);
    conn_has_request(c[2]);
    conn_has_request(c[3]);
    c[5] = arrive(&all, &most, fds[0], 3, 5); /* too many in all */
    assert_true(c[4]->shut && !c[5]->over);
    conn_has_request(c[5]);
    c[6] = arrive(&all, &most, fds[0], 4, 6); /* all busy */
    assert_true(c[6]->over && all.open == 5);
    assert_int_equal(conn_expire(&all, (int64_t)1e9, 10),
                     1); /* that one; the others are gone or busy */
    assert_true(c[6]->shut);
    for (int i = 0; i < 7; i++)
        conn_remove(&all, c[i]);
    assert_true(all.open == 0 && !all.all);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_new_one_takes_the_place_of_an_idle_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
