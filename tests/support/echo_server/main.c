/* An HTTP server that refuses every request with 401 and says back which key it got: for what the
 * program must not write down. Prints its port; answers one request a connection until it is
 * killed. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* The value of a header, up to its line's end; "" when it is not there. */
static void header(const char *head, const char *name, char out[256])
{
    size_t n = strlen(name);
    out[0] = 0;
    for (const char *line = head; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncasecmp(line, name, n) != 0 || line[n] != ':')
            continue;
        const char *value = line + n + 1 + strspn(line + n + 1, " ");
        snprintf(out, 256, "%.*s", (int)strcspn(value, "\r\n"), value);
        return;
    }
}

/* Reads one request whole; false when the connection ends. */
static int read_request(int fd, char *buffer, size_t room)
{
    size_t n = 0, want = room;
    while (n < want && n + 1 < room) {
        ssize_t got = read(fd, buffer + n, room - 1 - n);
        if (got <= 0)
            return 0;
        n += (size_t)got;
        buffer[n] = 0;
        const char *end = strstr(buffer, "\r\n\r\n");
        char length[256];
        header(buffer, "Content-Length", length);
        if (end)
            want = (size_t)(end + 4 - buffer) + strtoul(length, NULL, 10);
    }
    return 1;
}

int main(void)
{
    static char request[1 << 16];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&at, sizeof at) != 0 || listen(s, 8) != 0 ||
        getsockname(s, (struct sockaddr *)&at, &n) != 0) {
        perror("echo_server");
        return 1;
    }
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    for (int fd; (fd = accept(s, NULL, NULL)) >= 0; close(fd)) {
        char key[256], tenant[256], text[640];
        if (!read_request(fd, request, sizeof request))
            continue;
        header(request, "Authorization", key);
        header(request, "X-Tenant", tenant);
        int bytes =
            snprintf(text, sizeof text, "{\"error\":{\"message\":\"Incorrect API key: %s (%s)\"}}",
                     key, tenant);
        dprintf(fd,
                "HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
                bytes, text);
    }
    return 0;
}
