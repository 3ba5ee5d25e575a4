/* The usrsctp program of the benchmark `network`: one association over UDP, one stream, with checksums.
 *
 *   usrsctp receive ADDRESS PORT                 prints "ready", then BYTES MESSAGES SECONDS CPU-SECONDS
 *   usrsctp send ADDRESS PORT SIZE SECONDS       prints CPU-SECONDS
 *   usrsctp echo ADDRESS PORT                    prints "ready"
 *   usrsctp ping ADDRESS PORT SIZE COUNT         prints the median and the 99th percentile of COUNT round trips,
 *                                                and the CPU time of this program for each, in microseconds
 *
 * PORT is the server's UDP port; the client's is the next one. A message of 3 bytes ends a transfer, and the receiver
 * answers it with another. The programs exit without closing the association, because usrsctp sometimes hangs there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

#define SCTP_PORT 5201
#define LARGEST (1 << 20)
#define BUFFERS (4 << 20)

static unsigned char buffer[LARGEST];

static void fail(const char *what)
{
    fprintf(stderr, "usrsctp: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static double spent(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Receives a complete message and returns its length. */
static size_t take(struct socket *from)
{
    size_t length = 0;
    for (;;) {
        struct sctp_rcvinfo about;
        socklen_t about_length = sizeof about, source_length = 0;
        unsigned int kind = 0;
        int flags = 0;
        ssize_t got = usrsctp_recvv(from, buffer + length, LARGEST - length, NULL, &source_length, &about,
                                    &about_length, &kind, &flags);
        if (got <= 0)
            fail("receiving");
        length += (size_t)got;
        if (flags & MSG_EOR)
            return length;
    }
}

static void give(struct socket *to, size_t length)
{
    if (usrsctp_sendv(to, buffer, length, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, 0) != (ssize_t)length)
        fail("sending");
}

static struct socket *open_socket(uint16_t peer, int no_delay)
{
    int size = BUFFERS;
    struct sctp_udpencaps encaps;
    struct socket *made = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    if (!made)
        fail("socket");
    memset(&encaps, 0, sizeof encaps);
    encaps.sue_address.ss_family = AF_INET;
    encaps.sue_port = htons(peer);
    if (usrsctp_setsockopt(made, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) ||
        usrsctp_setsockopt(made, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) ||
        usrsctp_setsockopt(made, IPPROTO_SCTP, SCTP_NODELAY, &no_delay, sizeof no_delay) ||
        usrsctp_setsockopt(made, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps))
        fail("options");
    return made;
}

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

int main(int count, char **words)
{
    if (count < 4)
        return 2;
    const char *role = words[1];
    const uint16_t port = (uint16_t)atoi(words[3]);
    const int serves = !strcmp(role, "receive") || !strcmp(role, "echo");
    const int no_delay = !strcmp(role, "echo") || !strcmp(role, "ping");
    struct sockaddr_in at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_port = htons(SCTP_PORT);
    if (inet_pton(AF_INET, words[2], &at.sin_addr) != 1)
        fail(words[2]);
    usrsctp_init(serves ? port : (uint16_t)(port + 1), NULL, NULL);
    usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
    struct socket *made = open_socket(serves ? (uint16_t)(port + 1) : port, no_delay);
    if (serves) {
        if (usrsctp_bind(made, (struct sockaddr *)&at, sizeof at) || usrsctp_listen(made, 1))
            fail("listening");
        puts("ready");
        fflush(stdout);
        struct socket *peer = usrsctp_accept(made, NULL, NULL);
        if (!peer)
            fail("accepting");
        if (!strcmp(role, "echo"))
            for (;;) {
                size_t length = take(peer);
                give(peer, length);
            }
        double bytes = 0, messages = 0, first = 0, last = 0;
        for (;;) {
            size_t length = take(peer);
            if (length == 3)
                break;
            last = now();
            if (!messages)
                first = last;
            bytes += (double)length;
            messages += 1;
        }
        printf("%.0f %.0f %.6f %.6f\n", bytes, messages, last - first, spent());
        fflush(stdout);
        give(peer, 3);
        usleep(100000);
        _exit(0);
    }
    if (count < 6)
        return 2;
    const size_t size = (size_t)atol(words[4]);
    if (size <= 3 || size > LARGEST)
        return 2;
    if (usrsctp_connect(made, (struct sockaddr *)&at, sizeof at))
        fail("connecting");
    if (!strcmp(role, "send")) {
        const double end = now() + atof(words[5]);
        while (now() < end)
            for (int n = 0; n < 16; n++)
                give(made, size);
        give(made, 3);
        while (take(made) != 3)
            ;
        printf("%.6f\n", spent());
    } else {
        const long rounds = atol(words[5]), warm = rounds / 10;
        double *spans = calloc((size_t)rounds + 1, sizeof *spans);
        for (long n = -warm; n < rounds; n++) {
            const double begun = now();
            give(made, size);
            take(made);
            spans[n < 0 ? 0 : n] = now() - begun;
        }
        qsort(spans, (size_t)rounds, sizeof *spans, compare);
        printf("%.2f %.2f %.3f\n", spans[rounds / 2] * 1e6, spans[rounds * 99 / 100] * 1e6,
               spent() / (double)(rounds + warm) * 1e6);
    }
    fflush(stdout);
    _exit(0);
}
