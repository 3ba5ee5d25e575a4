/* DTLS on a UDP socket with one peer, below usrsctp: OpenSSL's (1.2), or
 * wolfSSL's (1.3, -DWITH_WOLFSSL). An SCTP packet is one record (RFC 8261).
 * One thread receives. Other threads send, and a lock protects the session.
 *
 * PEM names a file with the certificate and the key of a server. This side
 * does not verify certificates; the other side does.
 */
#include <fcntl.h>
#include <poll.h>

#ifdef WITH_WOLFSSL
#include <wolfssl/ssl.h>
typedef WOLFSSL session;
typedef WOLFSSL_CTX context;
#define session_read wolfSSL_read
#define session_write wolfSSL_write
#else
#include <openssl/err.h>
#include <openssl/ssl.h>
typedef SSL session;
typedef SSL_CTX context;
#define session_read SSL_read
#define session_write SSL_write
#endif

static pthread_mutex_t sealing = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static session *secured;
static int secured_socket = -1, secured_listens, is_open;
/* Its address identifies the connection in usrsctp's AF_CONN addresses. */
static char connection;

/* Returns the TSN of the first DATA chunk in an SCTP packet, or 0. */
static uint32_t first_tsn(const unsigned char *packet, size_t size)
{
    for (size_t at = 12; at + 16 <= size;) {
        const unsigned char *chunk = packet + at;
        size_t length = (size_t)chunk[2] << 8 | chunk[3];
        if (chunk[0] == 0)
            return (uint32_t)chunk[4] << 24 | (uint32_t)chunk[5] << 16 | (uint32_t)chunk[6] << 8 | chunk[7];
        at += length < 4 ? 4 : (length + 3) & ~(size_t)3;
    }
    return 0;
}

/* Whether a packet is lost, as if the buffer of the UDP socket were full. With `lose=N` that is the Nth packet with data,
 * and the first retransmission of its data. */
static int is_lost(const unsigned char *packet, size_t size)
{
    static long count;
    static int times;
    static uint32_t lost;
    uint32_t tsn = number("lose", 0) ? first_tsn(packet, size) : 0;
    if (!tsn || times == 2)
        return 0;
    if (++count == number("lose", 0))
        lost = tsn;
    return tsn == lost && ++times <= 2;
}

/* Sends a packet of usrsctp. */
static int seal(void *where, void *packet, size_t size, uint8_t tos, uint8_t df)
{
    (void)where, (void)tos, (void)df;
    pthread_mutex_lock(&sealing);
    /* Packets before the end of the handshake are lost; SCTP retransmits them. */
    if (is_open && !is_lost(packet, size))
        session_write(secured, packet, (int)size);
    pthread_mutex_unlock(&sealing);
    return 0;
}

/* Continues the handshake, and returns whether it is complete. */
static int shake_hands(void)
{
#ifdef WITH_WOLFSSL
    int done = secured_listens ? wolfSSL_accept(secured) : wolfSSL_connect(secured);
    int why = wolfSSL_get_error(secured, done);
    if (done != WOLFSSL_SUCCESS && why != WOLFSSL_ERROR_WANT_READ && why != WOLFSSL_ERROR_WANT_WRITE) {
        report("fault DTLS: %s", wolfSSL_ERR_reason_error_string((unsigned long)why));
        exit(1);
    }
    return done == WOLFSSL_SUCCESS;
#else
    int done = SSL_do_handshake(secured), why = SSL_get_error(secured, done);
    if (done != 1 && why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) {
        report("fault DTLS: %s", ERR_reason_error_string(ERR_get_error()));
        exit(1);
    }
    return done == 1;
#endif
}

/* Retransmits the last flight of the handshake; OpenSSL does so only if its own timer has expired. */
static void time_passes(void)
{
#ifdef WITH_WOLFSSL
    wolfSSL_dtls_got_timeout(secured);
#else
    DTLSv1_handle_timeout(secured);
#endif
}

/* Connects the socket to the peer. */
static void connected(const struct sockaddr *to, socklen_t length)
{
    if (connect(secured_socket, to, length))
        fail("connect UDP");
#ifndef WITH_WOLFSSL
    BIO_ADDR *peer = BIO_ADDR_new();
    const struct sockaddr_in *four = (const void *)to;
    const struct sockaddr_in6 *six = (const void *)to;
    if (to->sa_family == AF_INET)
        BIO_ADDR_rawmake(peer, AF_INET, &four->sin_addr, sizeof four->sin_addr, four->sin_port);
    else
        BIO_ADDR_rawmake(peer, AF_INET6, &six->sin6_addr, sizeof six->sin6_addr, six->sin6_port);
    BIO_ctrl(SSL_get_rbio(secured), BIO_CTRL_DGRAM_SET_CONNECTED, 0, peer);
    BIO_ADDR_free(peer);
#endif
}

static void *unseal(void *unused)
{
    static unsigned char packet[1 << 16];
    int quiet = 0;
    (void)unused;
    if (secured_listens) {
        /* The source of the first datagram becomes the peer. */
        struct sockaddr_storage from;
        socklen_t length = sizeof from;
        struct pollfd wait = { .fd = secured_socket, .events = POLLIN };
        while (recvfrom(secured_socket, packet, sizeof packet, MSG_PEEK, (struct sockaddr *)&from, &length) < 0)
            poll(&wait, 1, 1000);
        connected((struct sockaddr *)&from, length);
    }
    for (;;) {
        struct pollfd wait = { .fd = secured_socket, .events = POLLIN };
        pthread_mutex_lock(&sealing);
        if (!is_open && shake_hands()) {
            is_open = 1;
#ifdef WITH_WOLFSSL
            report("dtls %s %s", wolfSSL_get_version(secured), wolfSSL_get_cipher(secured));
#else
            report("dtls %s %s", SSL_get_version(secured), SSL_get_cipher(secured));
#endif
            pthread_cond_broadcast(&opened);
        }
        int size = is_open ? session_read(secured, packet, sizeof packet) : 0;
        pthread_mutex_unlock(&sealing);
        if (size > 0) {
            usrsctp_conninput(&connection, packet, (size_t)size, 0);
            continue;
        }
        if (poll(&wait, 1, 100) > 0)
            quiet = 0;
        else if (++quiet >= 10 && !is_open) {
            pthread_mutex_lock(&sealing);
            time_passes();
            pthread_mutex_unlock(&sealing);
            quiet = 0;
        }
    }
    return NULL;
}

/* Appends a line to the key log, if SSLKEYLOGFILE names one. */
static void log_secret(const char *line)
{
    const char *name = getenv("SSLKEYLOGFILE");
    FILE *file = name ? fopen(name, "a") : NULL;
    if (!file)
        return;
    fprintf(file, "%s\n", line);
    fclose(file);
}

#ifdef WITH_WOLFSSL
/* Logs a traffic secret with the client random. */
static int on_secret(session *from, int kind, const unsigned char *secret, int size, void *unused)
{
    static const struct { int kind; const char *label; } labels[] = {
        {CLIENT_HANDSHAKE_TRAFFIC_SECRET, "CLIENT_HANDSHAKE_TRAFFIC_SECRET"},
        {SERVER_HANDSHAKE_TRAFFIC_SECRET, "SERVER_HANDSHAKE_TRAFFIC_SECRET"},
        {CLIENT_TRAFFIC_SECRET, "CLIENT_TRAFFIC_SECRET_0"},
        {SERVER_TRAFFIC_SECRET, "SERVER_TRAFFIC_SECRET_0"},
    };
    unsigned char random[32];
    (void)unused;
    if (wolfSSL_get_client_random(from, random, sizeof random) != sizeof random)
        return 0;
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        char line[512];
        int length = 0;
        if (labels[i].kind != kind)
            continue;
        length = snprintf(line, sizeof line, "%s ", labels[i].label);
        for (size_t at = 0; at < sizeof random; at++)
            length += snprintf(line + length, sizeof line - (size_t)length, "%02x", random[at]);
        length += snprintf(line + length, sizeof line - (size_t)length, " ");
        for (int at = 0; at < size && at < 64; at++)
            length += snprintf(line + length, sizeof line - (size_t)length, "%02x", secret[at]);
        log_secret(line);
    }
    return 0;
}
#else
static void on_line(const session *from, const char *line)
{
    (void)from;
    log_secret(line);
}
#endif

static session *begin(int socket, int listens)
{
#ifdef WITH_WOLFSSL
    wolfSSL_Init();
    context *with = wolfSSL_CTX_new(listens ? wolfDTLSv1_3_server_method() : wolfDTLSv1_3_client_method());
    wolfSSL_CTX_set_verify(with, WOLFSSL_VERIFY_NONE, NULL);
    if (listens && (wolfSSL_CTX_use_certificate_file(with, PEM, WOLFSSL_FILETYPE_PEM) != WOLFSSL_SUCCESS ||
                    wolfSSL_CTX_use_PrivateKey_file(with, PEM, WOLFSSL_FILETYPE_PEM) != WOLFSSL_SUCCESS))
        fail("certificate");
    session *made = wolfSSL_new(with);
    wolfSSL_set_tls13_secret_cb(made, on_secret, NULL);
    wolfSSL_dtls_set_using_nonblock(made, 1);
    wolfSSL_dtls_set_mtu(made, 1400);
    if (wolfSSL_set_fd(made, socket) != WOLFSSL_SUCCESS)
        fail("wolfSSL_set_fd");
    return made;
#else
    context *with = SSL_CTX_new(listens ? DTLS_server_method() : DTLS_client_method());
    SSL_CTX_set_verify(with, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_keylog_callback(with, on_line);
    if (listens && (SSL_CTX_use_certificate_file(with, PEM, SSL_FILETYPE_PEM) != 1 ||
                    SSL_CTX_use_PrivateKey_file(with, PEM, SSL_FILETYPE_PEM) != 1))
        fail("certificate");
    session *made = SSL_new(with);
    SSL_set_options(made, SSL_OP_NO_QUERY_MTU);
    SSL_set_mtu(made, 1400);
    BIO *datagrams = BIO_new_dgram(socket, BIO_NOCLOSE);
    SSL_set_bio(made, datagrams, datagrams);
    if (listens)
        SSL_set_accept_state(made);
    else
        SSL_set_connect_state(made);
    return made;
#endif
}

/* Opens DTLS: as a client of `to`, or as a server if `to` is NULL. A client waits for the handshake. */
static void secure(const struct places *at, const struct places *to)
{
    pthread_t thread;
    size_t one = at->size / (size_t)at->count;
    secured_listens = !to;
    secured_socket = socket(at->family, SOCK_DGRAM, 0);
    if (secured_socket < 0 || bind(secured_socket, (const struct sockaddr *)at->bytes, (socklen_t)one))
        fail("bind UDP");
    int room = 1 << 20;
    setsockopt(secured_socket, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    fcntl(secured_socket, F_SETFL, O_NONBLOCK);
    secured = begin(secured_socket, secured_listens);
    if (to)
        connected((const struct sockaddr *)to->bytes, (socklen_t)one);
    if (pthread_create(&thread, NULL, unseal, NULL))
        fail("thread");
    if (to) {
        pthread_mutex_lock(&sealing);
        while (!is_open)
            pthread_cond_wait(&opened, &sealing);
        pthread_mutex_unlock(&sealing);
    }
}

/* Sends close_notify. */
static void unsecure(void)
{
    pthread_mutex_lock(&sealing);
    if (is_open)
#ifdef WITH_WOLFSSL
        wolfSSL_shutdown(secured);
#else
        SSL_shutdown(secured);
#endif
    is_open = 0;
    pthread_mutex_unlock(&sealing);
}

/* The AF_CONN address of the DTLS connection, with an SCTP port. */
static struct places place_in_dtls(int port)
{
    struct sockaddr_conn place = { .sconn_family = AF_CONN, .sconn_port = htons((uint16_t)port), .sconn_addr = &connection };
    struct places all = { .family = AF_CONN, .count = 1, .size = sizeof place };
    memcpy(all.bytes, &place, sizeof place);
    return all;
}

static volatile int are_timers_stopped;

static void *timers(void *unused)
{
    const unsigned milliseconds = 10;
    (void)unused;
    while (!are_timers_stopped) {
        usleep(milliseconds * 1000);
        usrsctp_handle_timers(milliseconds);
    }
    return NULL;
}

/* Initializes usrsctp without its threads, as programs with an event loop do, and runs its timers until `stop_timers`. */
static void run_timers(void)
{
    pthread_t thread;
    usrsctp_init_nothreads(0, seal, NULL);
    if (pthread_create(&thread, NULL, timers, NULL))
        fail("thread");
}
