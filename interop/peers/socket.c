/* An SCTP peer with one association on the sockets of RFC 6458: those of usrsctp
 * (-DUSRSCTP), which may run over DTLS (-DOVER_DTLS), or those of the Linux
 * kernel.
 *
 * Arguments are KEY=VALUE. Commands come from standard input and reports go to
 * standard output, one per line (see ../src/field/program.rs). There are three
 * threads: main reads commands, `sender` sends messages, `receiver` receives.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef USRSCTP
#include <usrsctp.h>
typedef struct socket *handle;
#define NONE NULL
#define set_option usrsctp_setsockopt
#ifndef SCTP_INTERLEAVING_SUPPORTED
/* The library has this option, but its header does not define it. */
#define SCTP_INTERLEAVING_SUPPORTED 0x00001206
#endif
#else
#include <linux/sctp.h>
typedef int handle;
#define NONE (-1)
#define set_option setsockopt
#ifndef MSG_NOTIFICATION
#define MSG_NOTIFICATION 0x8000
#endif
#endif

#define LEVEL IPPROTO_SCTP
#define MOST_ADDRESSES 8
#define MOST_STREAMS 65536
#define LARGEST (1 << 20)
/* The maximum size of a message with a part of an HTTP body, in bytes. */
#define PIECE 8000

static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;
static handle end = NONE;
static int serves_http;

static void report(const char *form, ...)
{
    va_list values;
    pthread_mutex_lock(&printing);
    fputs(": ", stdout);
    va_start(values, form);
    vprintf(form, values);
    va_end(values);
    putchar('\n');
    fflush(stdout);
    pthread_mutex_unlock(&printing);
}

static void fail(const char *what)
{
    report("fault %s: %s", what, strerror(errno));
    exit(1);
}

/* ---- arguments ---- */

static int arguments;
static char **argument;

static const char *word(const char *key, const char *otherwise)
{
    size_t length = strlen(key);
    for (int i = 1; i < arguments; i++)
        if (!strncmp(argument[i], key, length) && argument[i][length] == '=')
            return argument[i] + length + 1;
    return otherwise;
}

static long number(const char *key, long otherwise)
{
    const char *text = word(key, NULL);
    return text ? strtol(text, NULL, 10) : otherwise;
}

/* Packed addresses of one family, as sctp_bindx and sctp_connectx expect them. */
struct places {
    sa_family_t family;
    int count;
    size_t size;
    _Alignas(struct sockaddr_storage) unsigned char bytes[MOST_ADDRESSES * sizeof(struct sockaddr_in6)];
};

static void address(const char *text, int port, struct places *out)
{
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
    int is_six = strchr(text, ':') != NULL;
    if (inet_pton(is_six ? AF_INET6 : AF_INET, text, is_six ? (void *)&six.sin6_addr : (void *)&four.sin_addr) != 1) {
        errno = EINVAL;
        fail(text);
    }
    size_t size = is_six ? sizeof six : sizeof four;
    memcpy(out->bytes + out->size, is_six ? (void *)&six : (void *)&four, size);
    out->family = is_six ? AF_INET6 : AF_INET;
    out->size += size;
    out->count++;
}

/* Parses a list of addresses such as "A,B", which share one port. */
static struct places addresses(const char *list, int port)
{
    char copy[256], *rest = copy, *one;
    struct places all = { .count = 0 };
    snprintf(copy, sizeof copy, "%s", list);
    while ((one = strsep(&rest, ",")) && all.count < MOST_ADDRESSES)
        address(one, port, &all);
    return all;
}

/* ---- the two kinds of sockets ---- */

#ifdef OVER_DTLS
#include "dtls.h"
#endif

#ifdef USRSCTP
static handle open_socket(int family)
{
    return usrsctp_socket(family, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
}

static int bind_all(handle at, struct places *list, int add)
{
#ifdef OVER_DTLS
    if (add == 0)
        return usrsctp_bind(at, (struct sockaddr *)list->bytes, (socklen_t)list->size);
#endif
    int how = add >= 0 ? SCTP_BINDX_ADD_ADDR : SCTP_BINDX_REM_ADDR;
    return usrsctp_bindx(at, (struct sockaddr *)list->bytes, list->count, how);
}

static int connect_all(handle at, struct places *list)
{
#ifdef OVER_DTLS
    return usrsctp_connect(at, (struct sockaddr *)list->bytes, (socklen_t)list->size);
#endif
    sctp_assoc_t id;
    return usrsctp_connectx(at, (struct sockaddr *)list->bytes, list->count, &id);
}

static ssize_t take(handle from, void *into, size_t room, struct sctp_rcvinfo *about, int *flags)
{
    socklen_t length = sizeof *about, source_length = sizeof(struct sockaddr_storage);
    struct sockaddr_storage source;
    unsigned int kind = 0;
    *flags = 0;
    return usrsctp_recvv(from, into, room, (struct sockaddr *)&source, &source_length, about, &length, &kind, flags);
}

static ssize_t give(handle to, const void *bytes, size_t size, struct sctp_sndinfo *how, struct sctp_prinfo *limit)
{
    struct sctp_sendv_spa all;
    memset(&all, 0, sizeof all);
    all.sendv_flags = SCTP_SEND_SNDINFO_VALID;
    all.sendv_sndinfo = *how;
    if (limit->pr_policy) {
        all.sendv_flags |= SCTP_SEND_PRINFO_VALID;
        all.sendv_prinfo = *limit;
    }
    return usrsctp_sendv(to, bytes, size, NULL, 0, &all, sizeof all, SCTP_SENDV_SPA, 0);
}
#else
static handle open_socket(int family)
{
    return socket(family, SOCK_STREAM, IPPROTO_SCTP);
}

static int bind_all(handle at, struct places *list, int add)
{
    if (add == 0) {
        size_t one = list->size / (size_t)list->count;
        if (bind(at, (struct sockaddr *)list->bytes, (socklen_t)one))
            return -1;
        if (list->count == 1)
            return 0;
        return setsockopt(at, LEVEL, SCTP_SOCKOPT_BINDX_ADD, list->bytes + one, (socklen_t)(list->size - one));
    }
    return setsockopt(at, LEVEL, add > 0 ? SCTP_SOCKOPT_BINDX_ADD : SCTP_SOCKOPT_BINDX_REM, list->bytes, (socklen_t)list->size);
}

static int connect_all(handle at, struct places *list)
{
    int done = setsockopt(at, LEVEL, SCTP_SOCKOPT_CONNECTX, list->bytes, (socklen_t)list->size);
    return done < 0 ? -1 : 0;
}

static ssize_t take(handle from, void *into, size_t room, struct sctp_rcvinfo *about, int *flags)
{
    char control[256];
    struct iovec piece = { into, room };
    struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    ssize_t size = recvmsg(from, &message, 0);
    if (size < 0)
        return size;
    *flags = message.msg_flags;
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one))
        if (one->cmsg_level == LEVEL && one->cmsg_type == SCTP_RCVINFO)
            memcpy(about, CMSG_DATA(one), sizeof *about);
    return size;
}

static ssize_t give(handle to, const void *bytes, size_t size, struct sctp_sndinfo *how, struct sctp_prinfo *limit)
{
    char control[CMSG_SPACE(sizeof *how) + CMSG_SPACE(sizeof *limit)];
    struct iovec piece = { (void *)bytes, size };
    struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control };
    struct cmsghdr *one = (struct cmsghdr *)control;
    memset(control, 0, sizeof control);
    one->cmsg_level = LEVEL;
    one->cmsg_type = SCTP_SNDINFO;
    one->cmsg_len = CMSG_LEN(sizeof *how);
    memcpy(CMSG_DATA(one), how, sizeof *how);
    message.msg_controllen = CMSG_SPACE(sizeof *how);
    if (limit->pr_policy) {
        one = (struct cmsghdr *)(control + message.msg_controllen);
        one->cmsg_level = LEVEL;
        one->cmsg_type = SCTP_PRINFO;
        one->cmsg_len = CMSG_LEN(sizeof *limit);
        memcpy(CMSG_DATA(one), limit, sizeof *limit);
        message.msg_controllen += CMSG_SPACE(sizeof *limit);
    }
    return sendmsg(to, &message, MSG_NOSIGNAL);
}
#endif

/* Sets an option of level SCTP; the program ends if that fails. */
static void want(handle at, int option, const void *value, size_t size, const char *name)
{
    if (set_option(at, LEVEL, option, value, (socklen_t)size))
        fail(name);
}

static void want_value(handle at, int option, uint32_t value, const char *name)
{
    struct sctp_assoc_value both;
    memset(&both, 0, sizeof both);
    both.assoc_value = value;
    want(at, option, &both, sizeof both, name);
}

static void configure(handle at, sa_family_t family)
{
    static const uint16_t events[] = { SCTP_ASSOC_CHANGE, SCTP_PEER_ADDR_CHANGE, SCTP_SHUTDOWN_EVENT,
                                       SCTP_STREAM_RESET_EVENT, SCTP_STREAM_CHANGE_EVENT };
    int yes = 1;
    struct sctp_initmsg init;
    struct sctp_rtoinfo rto;
    struct sctp_assocparams errors;
    struct sctp_paddrparams path;
    (void)family;

#ifdef USRSCTP
    int room = (int)number("receive_buffer", 0);
    if (room && usrsctp_setsockopt(at, SOL_SOCKET, SO_RCVBUF, &room, sizeof room))
        fail("SO_RCVBUF");
#endif
    want(at, SCTP_RECVRCVINFO, &yes, sizeof yes, "SCTP_RECVRCVINFO");
    want(at, SCTP_NODELAY, &yes, sizeof yes, "SCTP_NODELAY");
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        struct sctp_event event;
        memset(&event, 0, sizeof event);
        event.se_type = events[i];
        event.se_on = 1;
        want(at, SCTP_EVENT, &event, sizeof event, "SCTP_EVENT");
    }
    memset(&init, 0, sizeof init);
    init.sinit_num_ostreams = (uint16_t)number("streams", 16);
    init.sinit_max_instreams = 64;
    want(at, SCTP_INITMSG, &init, sizeof init, "SCTP_INITMSG");
    memset(&rto, 0, sizeof rto);
    rto.srto_initial = rto.srto_min = (uint32_t)number("rto_min", 300);
    rto.srto_max = (uint32_t)number("rto_max", 1000);
    want(at, SCTP_RTOINFO, &rto, sizeof rto, "SCTP_RTOINFO");
    memset(&errors, 0, sizeof errors);
    errors.sasoc_asocmaxrxt = (uint16_t)number("retrans", 10);
    want(at, SCTP_ASSOCINFO, &errors, sizeof errors, "SCTP_ASSOCINFO");
    memset(&path, 0, sizeof path);
    path.spp_flags = SPP_HB_ENABLE;
    path.spp_hbinterval = (uint32_t)number("hb", 30000);
    path.spp_pathmaxrxt = (uint16_t)number("path_retrans", 3);
#ifdef USRSCTP
    path.spp_address.ss_family = AF_UNSPEC;
#ifdef OVER_DTLS
    /* RFC 8261 §4.1: ICMP does not reach SCTP over DTLS, so the path MTU is fixed. */
    path.spp_flags |= SPP_PMTUD_DISABLE;
    path.spp_pathmtu = 1200;
#else
    if (number("encap", 0)) {
        struct sctp_udpencaps encaps;
        memset(&encaps, 0, sizeof encaps);
        encaps.sue_address.ss_family = family;
        encaps.sue_port = htons((uint16_t)number("encap", 0));
        want(at, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps, "SCTP_REMOTE_UDP_ENCAPS_PORT");
    }
#endif
#endif
    want(at, SCTP_PEER_ADDR_PARAMS, &path, sizeof path, "SCTP_PEER_ADDR_PARAMS");
#ifndef USRSCTP
    /* Closing the socket aborts the association, so the port is free when the program ends. */
    struct linger none = { .l_onoff = 1, .l_linger = 0 };
    if (setsockopt(at, SOL_SOCKET, SO_LINGER, &none, sizeof none))
        fail("SO_LINGER");
#endif
    want_value(at, SCTP_PR_SUPPORTED, (uint32_t)number("pr", 0), "SCTP_PR_SUPPORTED");
    /* Both stacks allow ASCONF only with AUTH, so ASCONF is disabled before AUTH and enabled after it. */
    if (!number("asconf", 0))
        want_value(at, SCTP_ASCONF_SUPPORTED, 0, "SCTP_ASCONF_SUPPORTED");
    want_value(at, SCTP_AUTH_SUPPORTED, (uint32_t)number("auth", 0), "SCTP_AUTH_SUPPORTED");
    if (number("asconf", 0))
        want_value(at, SCTP_ASCONF_SUPPORTED, 1, "SCTP_ASCONF_SUPPORTED");
    want_value(at, SCTP_RECONFIG_SUPPORTED, (uint32_t)number("reconfig", 0), "SCTP_RECONFIG_SUPPORTED");
    if (number("reconfig", 0))
        want_value(at, SCTP_ENABLE_STREAM_RESET, SCTP_ENABLE_RESET_STREAM_REQ | SCTP_ENABLE_CHANGE_ASSOC_REQ | SCTP_ENABLE_RESET_ASSOC_REQ,
                   "SCTP_ENABLE_STREAM_RESET");
    if (number("auth_data", 0)) {
        struct sctp_authchunk chunk = { .sauth_chunk = 0 };
        want(at, SCTP_AUTH_CHUNK, &chunk, sizeof chunk, "SCTP_AUTH_CHUNK");
    }
#ifdef USRSCTP
    want_value(at, SCTP_NRSACK_SUPPORTED, (uint32_t)number("nr_sack", 0), "SCTP_NRSACK_SUPPORTED");
#endif
    if (number("idata", 0)) {
#ifdef USRSCTP
        uint32_t level = 2;
#else
        int level = 1;
#endif
        want(at, SCTP_FRAGMENT_INTERLEAVE, &level, sizeof level, "SCTP_FRAGMENT_INTERLEAVE");
        want_value(at, SCTP_INTERLEAVING_SUPPORTED, 1, "SCTP_INTERLEAVING_SUPPORTED");
    }
}

/* ---- messages ---- */

static void pattern(unsigned char *bytes, uint32_t message, size_t size)
{
    for (size_t at = 0; at < size; at++)
        bytes[at] = (unsigned char)(at + (at >> 8) + 7 * (size_t)message);
    bytes[0] = (unsigned char)(message >> 24);
    bytes[1] = (unsigned char)(message >> 16);
    bytes[2] = (unsigned char)(message >> 8);
    bytes[3] = (unsigned char)message;
}

struct task {
    struct task *next;
    enum { SEND, SHUTDOWN, TEXT, BODY } kind;
    uint32_t message;
    uint16_t stream;
    size_t size;
    int unordered;
    char policy;
    uint32_t limit;
    char *text;
};

static struct task *first, **last = &first;
static pthread_mutex_t queueing = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queued = PTHREAD_COND_INITIALIZER;
static volatile int over;

static void queue(struct task one)
{
    struct task *made = malloc(sizeof *made);
    *made = one;
    made->next = NULL;
    pthread_mutex_lock(&queueing);
    *last = made;
    last = &made->next;
    pthread_cond_signal(&queued);
    pthread_mutex_unlock(&queueing);
}

static void send_bytes(const unsigned char *bytes, const struct task *one, uint32_t ppid)
{
    struct sctp_sndinfo how;
    struct sctp_prinfo limit;
    memset(&how, 0, sizeof how);
    memset(&limit, 0, sizeof limit);
    how.snd_sid = one->stream;
    how.snd_ppid = htonl(ppid);
    how.snd_flags = one->unordered ? SCTP_UNORDERED : 0;
    if (one->policy == 't') {
        limit.pr_policy = SCTP_PR_SCTP_TTL;
        limit.pr_value = one->limit;
    } else if (one->policy == 'r') {
        limit.pr_policy = SCTP_PR_SCTP_RTX;
        limit.pr_value = one->limit;
    }
    if (give(end, bytes, one->size, &how, &limit) < 0 && !over && errno != EPIPE && errno != ECONNRESET && errno != ESHUTDOWN && errno != ECONNABORTED && errno != ENOTCONN && errno != ETIMEDOUT)
        report("fault send of %zu bytes on stream %u: %s", one->size, one->stream, strerror(errno));
}

static void *sender(void *unused)
{
    unsigned char *bytes = malloc(LARGEST);
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&queueing);
        while (!first)
            pthread_cond_wait(&queued, &queueing);
        struct task *one = first;
        first = one->next;
        if (!first)
            last = &first;
        pthread_mutex_unlock(&queueing);
        switch (one->kind) {
        case SEND:
            pattern(bytes, one->message, one->size);
            send_bytes(bytes, one, 53);
            break;
        case TEXT:
            send_bytes((unsigned char *)one->text, one, 63);
            free(one->text);
            break;
        case BODY: {
            /* Send one piece of a body and queue the rest behind the other bodies, so that all are sent in parallel. */
            struct task piece = *one, rest = *one;
            piece.size = one->size < PIECE ? one->size : PIECE;
            send_bytes((unsigned char *)piece.text, &piece, 63);
            rest.text += piece.size;
            rest.size -= piece.size;
            if (rest.size)
                queue(rest);
            break;
        }
        case SHUTDOWN:
#ifdef USRSCTP
            if (usrsctp_shutdown(end, SHUT_WR))
#else
            if (shutdown(end, SHUT_WR))
#endif
                report("fault shutdown: %s", strerror(errno));
            break;
        }
        free(one);
    }
    return NULL;
}

/* ---- the subset of HTTP that the cases use ---- */

struct flow {
    unsigned char *bytes;
    size_t size;
};
static struct flow flows[MOST_STREAMS];

#define BODY_MESSAGE 7

static void text(uint16_t stream, const void *bytes, size_t size)
{
    struct task one = { .kind = TEXT, .stream = stream, .size = size, .policy = 'f' };
    one.text = malloc(size);
    memcpy(one.text, bytes, size);
    queue(one);
}

static void answer(uint16_t stream)
{
    struct flow *flow = &flows[stream];
    char *blank = memmem(flow->bytes, flow->size, "\r\n\r\n", 4);
    if (!blank)
        return;
    /* The path is /bytes/N. Other paths get a body of 1,000 bytes. */
    size_t size = 1000;
    sscanf((char *)flow->bytes, "GET /bytes/%zu", &size);
    if (size < 4 || size > LARGEST)
        size = 1000;
    flow->size = 0;
    char head[200];
    int length = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %zu\r\n\r\n", size);
    text(stream, head, (size_t)length);
    /* Every body is a prefix of this one. No lock is needed, because only the receiver's thread runs this. */
    static unsigned char *body;
    if (!body) {
        body = malloc(LARGEST);
        pattern(body, BODY_MESSAGE, LARGEST);
    }
    queue((struct task){ .kind = BODY, .stream = stream, .size = size, .policy = 'f', .text = (char *)body });
}

static void answered(uint16_t stream)
{
    struct flow *flow = &flows[stream];
    char *blank = memmem(flow->bytes, flow->size, "\r\n\r\n", 4), *field;
    int status = 0;
    size_t size = 0;
    if (!blank)
        return;
    *blank = 0;
    sscanf((char *)flow->bytes, "HTTP/1.1 %d", &status);
    if ((field = strcasestr((char *)flow->bytes, "content-length:")))
        size = strtoul(field + 15, NULL, 10);
    *blank = '\r';
    unsigned char *body = (unsigned char *)blank + 4;
    if (flow->size - (size_t)(body - flow->bytes) < size)
        return;
    unsigned char *right = malloc(size < 4 ? 4 : size);
    pattern(right, BODY_MESSAGE, size < 4 ? 4 : size);
    report("body %u %d %zu %s", stream, status, size, memcmp(right, body, size) ? "wrong" : "ok");
    free(right);
    flow->size = 0;
}

static void hypertext(uint16_t stream, const unsigned char *bytes, size_t size)
{
    struct flow *flow = &flows[stream];
    flow->bytes = realloc(flow->bytes, flow->size + size + 1);
    memcpy(flow->bytes + flow->size, bytes, size);
    flow->size += size;
    flow->bytes[flow->size] = 0;
    if (serves_http)
        answer(stream);
    else
        answered(stream);
}

/* ---- notifications and received messages ---- */

static void streams(const char *what, const uint16_t *list, size_t count)
{
    char line[512];
    int at = snprintf(line, sizeof line, "%s", what);
    for (size_t i = 0; i < count && at < 480; i++)
        at += snprintf(line + at, sizeof line - (size_t)at, " %u", list[i]);
    report("%s", line);
}

static void notified(const union sctp_notification *note, size_t size)
{
    const char *name;
    char place[64] = "";
    switch (note->sn_header.sn_type) {
    case SCTP_ASSOC_CHANGE:
        switch (note->sn_assoc_change.sac_state) {
        case SCTP_COMM_UP:
            report("up %u %u", note->sn_assoc_change.sac_outbound_streams, note->sn_assoc_change.sac_inbound_streams);
            break;
        case SCTP_RESTART:
            report("restarted");
            break;
        case SCTP_COMM_LOST:
            over = 1;
            report("down lost, error %u", note->sn_assoc_change.sac_error);
            break;
        case SCTP_SHUTDOWN_COMP:
            over = 1;
            report("down shutdown");
            break;
        case SCTP_CANT_STR_ASSOC:
            over = 1;
            report("down never up");
            break;
        }
        break;
    case SCTP_PEER_ADDR_CHANGE:
        switch (note->sn_paddr_change.spc_state) {
        case SCTP_ADDR_AVAILABLE: name = "available"; break;
        case SCTP_ADDR_UNREACHABLE: name = "unreachable"; break;
        case SCTP_ADDR_REMOVED: name = "removed"; break;
        case SCTP_ADDR_ADDED: name = "added"; break;
        case SCTP_ADDR_MADE_PRIM: name = "primary"; break;
        case SCTP_ADDR_CONFIRMED: name = "confirmed"; break;
        default: name = "other"; break;
        }
        const struct sockaddr_in *at = (const void *)&note->sn_paddr_change.spc_aaddr;
        const struct sockaddr_in6 *six = (const void *)at;
        if (at->sin_family == AF_INET)
            inet_ntop(AF_INET, &at->sin_addr, place, sizeof place);
        if (at->sin_family == AF_INET6)
            inet_ntop(AF_INET6, &six->sin6_addr, place, sizeof place);
        report("address %s %s", name, place);
        break;
    case SCTP_SHUTDOWN_EVENT:
        report("closing");
        break;
    case SCTP_STREAM_RESET_EVENT: {
        const struct sctp_stream_reset_event *event = &note->sn_strreset_event;
        size_t count = (size - sizeof *event) / sizeof(uint16_t);
        if (event->strreset_flags & (SCTP_STREAM_RESET_DENIED | SCTP_STREAM_RESET_FAILED))
            streams("reset refused", event->strreset_stream_list, count);
        else {
            if (event->strreset_flags & SCTP_STREAM_RESET_INCOMING_SSN)
                streams("reset in", event->strreset_stream_list, count);
            if (event->strreset_flags & SCTP_STREAM_RESET_OUTGOING_SSN)
                streams("reset out", event->strreset_stream_list, count);
        }
        break;
    }
    case SCTP_STREAM_CHANGE_EVENT:
        if (note->sn_strchange_event.strchange_flags)
            report("streams refused %#x", note->sn_strchange_event.strchange_flags);
        else
            report("streams %u %u", note->sn_strchange_event.strchange_instrms, note->sn_strchange_event.strchange_outstrms);
        break;
    }
}

static void *receiver(void *unused)
{
    /* Incomplete messages of each stream: [0] ordered, [1] unordered. */
    static struct { unsigned char *bytes; size_t size; } parts[2][MOST_STREAMS];
    unsigned char *bytes = malloc(LARGEST), *right = malloc(LARGEST);
    int http = (int)number("http", 0);
    (void)unused;
    for (;;) {
        struct sctp_rcvinfo about;
        int flags = 0;
        memset(&about, 0, sizeof about);
        ssize_t size = take(end, bytes, LARGEST, &about, &flags);
        if (size <= 0) {
            if (size < 0 && (errno == EINTR || errno == EAGAIN))
                continue;
            if (!over)
                report("down %s", size ? strerror(errno) : "closed");
            over = 1;
            return NULL;
        }
        if (flags & MSG_NOTIFICATION) {
            notified((const void *)bytes, (size_t)size);
            continue;
        }
        uint16_t stream = about.rcv_sid;
        if (http) {
            hypertext(stream, bytes, (size_t)size);
            continue;
        }
        int loose = !!(about.rcv_flags & SCTP_UNORDERED);
        unsigned char *whole = bytes;
        size_t length = (size_t)size;
        if (!(flags & MSG_EOR) || parts[loose][stream].size) {
            parts[loose][stream].bytes = realloc(parts[loose][stream].bytes, parts[loose][stream].size + (size_t)size);
            memcpy(parts[loose][stream].bytes + parts[loose][stream].size, bytes, (size_t)size);
            parts[loose][stream].size += (size_t)size;
            if (!(flags & MSG_EOR))
                continue;
            whole = parts[loose][stream].bytes;
            length = parts[loose][stream].size;
            parts[loose][stream].size = 0;
        }
        if (length < 4 || length > LARGEST) {
            report("fault message of %zu bytes", length);
            continue;
        }
        uint32_t message = (uint32_t)whole[0] << 24 | (uint32_t)whole[1] << 16 | (uint32_t)whole[2] << 8 | whole[3];
        pattern(right, message, length);
        report("message %u %u %zu %s", stream, message, length, memcmp(right, whole, length) ? "wrong" : "ok");
    }
}

/* ---- commands ---- */

static void reset(char *rest, int in)
{
    struct { struct sctp_reset_streams head; uint16_t list[64]; } ask;
    char *one;
    memset(&ask, 0, sizeof ask);
    uint16_t *list = ask.head.srs_stream_list;
    while ((one = strsep(&rest, " ")) && ask.head.srs_number_streams < 64)
        if (*one)
            list[ask.head.srs_number_streams++] = (uint16_t)atoi(one);
    ask.head.srs_flags = in ? SCTP_STREAM_RESET_INCOMING : SCTP_STREAM_RESET_OUTGOING;
    size_t size = sizeof ask.head + ask.head.srs_number_streams * sizeof(uint16_t);
    if (set_option(end, LEVEL, SCTP_RESET_STREAMS, &ask, (socklen_t)size))
        report("fault SCTP_RESET_STREAMS: %s", strerror(errno));
}

static void obey(char *line)
{
    char *rest = line, *verb = strsep(&rest, " ");
    if (!strcmp(verb, "send")) {
        struct task one = { .kind = SEND };
        unsigned stream;
        char order;
        if (rest && sscanf(rest, "%u %u %zu %c %c %u", &one.message, &stream, &one.size, &order, &one.policy, &one.limit) == 6 && one.size <= LARGEST) {
            one.stream = (uint16_t)stream;
            one.unordered = order == 'u';
            queue(one);
        } else
            report("fault not understood: send");
    } else if (!strcmp(verb, "get")) {
        unsigned stream;
        char path[100], head[200];
        if (rest && sscanf(rest, "%u %99s", &stream, path) == 2) {
            int length = snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: interop\r\n\r\n", path);
            text((uint16_t)stream, head, (size_t)length);
        }
    } else if (!strcmp(verb, "shutdown")) {
        queue((struct task){ .kind = SHUTDOWN });
    } else if (!strcmp(verb, "abort")) {
#ifdef USRSCTP
        struct sctp_sndinfo how;
        struct sctp_prinfo limit;
        memset(&how, 0, sizeof how);
        memset(&limit, 0, sizeof limit);
        how.snd_flags = SCTP_ABORT;
        if (give(end, "", 0, &how, &limit) < 0)
            report("fault abort: %s", strerror(errno));
#else
        /* A one-to-one socket aborts only when it is closed (see SO_LINGER). The exit closes it, because another
         * thread waits in recvmsg. */
        report("down aborted");
        exit(0);
#endif
    } else if (!strcmp(verb, "die")) {
        kill(getpid(), SIGKILL);
    } else if (!strcmp(verb, "quit")) {
#ifdef OVER_DTLS
        unsecure();
#endif
        exit(0);
    } else if (!strcmp(verb, "reset")) {
        reset(rest, 0);
    } else if (!strcmp(verb, "streams")) {
        struct sctp_add_streams ask;
        memset(&ask, 0, sizeof ask);
        ask.sas_outstrms = (uint16_t)atoi(rest);
        if (set_option(end, LEVEL, SCTP_ADD_STREAMS, &ask, sizeof ask))
            report("fault SCTP_ADD_STREAMS: %s", strerror(errno));
    } else if (!strcmp(verb, "add") || !strcmp(verb, "remove")) {
        struct places place = addresses(rest, (int)number("port", 5000));
        if (bind_all(end, &place, *verb == 'a' ? 1 : -1))
            report("fault bindx %s: %s", verb, strerror(errno));
#ifdef OVER_DTLS
    } else if (!strcmp(verb, "stop_timers")) {
        are_timers_stopped = 1;
#endif
    } else
        report("fault not understood: %s", verb);
}

int main(int count, char **values)
{
    pthread_t thread;
    arguments = count;
    argument = values;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    signal(SIGPIPE, SIG_IGN);
    int port = (int)number("port", 5000), to = (int)number("peer_port", 5000);
    struct places local = addresses(word("local", "127.0.0.1"), port);
    int listens = !strcmp(word("role", "listen"), "listen");
    serves_http = listens;
#ifdef OVER_DTLS
    int udp = (int)number("encap", 4433);
    struct places outer = addresses(word("local", "127.0.0.1"), udp), outer_peer = addresses(word("peer", "127.0.0.1"), udp);
    if (number("own_timers", 0))
        run_timers();
    else
        usrsctp_init(0, seal, NULL);
    usrsctp_register_address(&connection);
    local = place_in_dtls(port);
#elif defined(USRSCTP)
    usrsctp_init((uint16_t)number("encap", 0), NULL, NULL);
#endif
#ifdef USRSCTP
    usrsctp_sysctl_set_sctp_blackhole(0);
    usrsctp_sysctl_set_sctp_mobility_base(0);
#endif
    handle socket = open_socket(local.family);
    if (socket == NONE)
        fail("socket");
    configure(socket, local.family);
    if (bind_all(socket, &local, 0))
        fail("bind");
    if (listens) {
#ifdef USRSCTP
        if (usrsctp_listen(socket, 1))
            fail("listen");
#ifdef OVER_DTLS
        secure(&outer, NULL);
#endif
        report("ready");
        struct sockaddr_storage from;
        socklen_t length = sizeof from;
        end = usrsctp_accept(socket, (struct sockaddr *)&from, &length);
#else
        if (listen(socket, 1))
            fail("listen");
        report("ready");
        end = accept(socket, NULL, NULL);
#endif
        if (end == NONE)
            fail("accept");
    } else {
        report("ready");
#ifdef OVER_DTLS
        secure(&outer, &outer_peer);
        struct places peer = place_in_dtls(to);
#else
        struct places peer = addresses(word("peer", "127.0.0.1"), to);
#endif
        end = socket;
        if (connect_all(socket, &peer))
            fail("connect");
    }
    report("connected");
    if (pthread_create(&thread, NULL, sender, NULL) || pthread_create(&thread, NULL, receiver, NULL))
        fail("thread");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, stdin)) > 0) {
        while (length && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            line[--length] = 0;
        report("took");
        if (length)
            obey(line);
    }
    return 0;
}
