// An SCTP peer in pion/sctp. Arguments are KEY=VALUE. Commands come from
// standard input and reports go to standard output, one per line (see
// ../../src/field/program.rs). Each UDP datagram is an SCTP packet, or a DTLS
// record with one.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/pion/dtls/v3/pkg/crypto/selfsign"
	"github.com/pion/sctp"
)

const (
	largest     = 1 << 20
	bodyMessage = 7
	mostWaiting = 64_000
	ppidData    = sctp.PayloadProtocolIdentifier(53)
	ppidHTTP    = sctp.PayloadProtocolIdentifier(63)
)

var printing sync.Mutex

func report(form string, values ...any) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Printf(": "+form+"\n", values...)
}

func fail(what string, err error) {
	report("fault %s: %v", what, err)
	os.Exit(1)
}

func word(key, otherwise string) string {
	for _, one := range os.Args[1:] {
		if value, found := strings.CutPrefix(one, key+"="); found {
			return value
		}
	}
	return otherwise
}

func number(key string, otherwise int) int {
	if value, err := strconv.Atoi(word(key, "")); err == nil {
		return value
	}
	return otherwise
}

// link is a UDP socket that sends to the source of the last datagram.
type link struct {
	*net.UDPConn
	lock sync.Mutex
	peer *net.UDPAddr
}

func (l *link) Read(into []byte) (int, error) {
	for {
		size, from, err := l.ReadFromUDP(into)
		// The peer may not have started, or may have ended. SCTP detects that with its own timers.
		if errors.Is(err, syscall.ECONNREFUSED) {
			continue
		}
		if err == nil {
			l.lock.Lock()
			l.peer = from
			l.lock.Unlock()
		}
		return size, err
	}
}

func (l *link) Write(packet []byte) (int, error) {
	l.lock.Lock()
	peer := l.peer
	l.lock.Unlock()
	if peer == nil {
		return len(packet), nil
	}
	if _, err := l.WriteToUDP(packet, peer); err != nil && errors.Is(err, net.ErrClosed) {
		return 0, err
	}
	return len(packet), nil
}

func pattern(message uint32, size int) []byte {
	bytes := make([]byte, max(size, 4))
	for at := range bytes {
		bytes[at] = byte(at + at>>8 + 7*int(message))
	}
	binary.BigEndian.PutUint32(bytes, message)
	return bytes
}

type end struct {
	association *sctp.Association
	lock        sync.Mutex
	streams     map[uint16]*sctp.Stream
	reading     map[*sctp.Stream]bool
	closing     bool
	serves      bool
	http        bool
	// The PPID of requests and responses.
	kind sctp.PayloadProtocolIdentifier
}

// stream returns a stream, and opens it if necessary.
func (e *end) stream(id uint16) (*sctp.Stream, error) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if known := e.streams[id]; known != nil {
		return known, nil
	}
	opened, err := e.association.OpenStream(id, ppidData)
	if err != nil {
		return nil, err
	}
	e.keep(opened)
	return opened, nil
}

// open returns a stream that can be written. It waits until a previous stream of the same number has been reset.
func (e *end) open(id uint16) (*sctp.Stream, error) {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		stream, err := e.stream(id)
		if err != nil || stream.State() == sctp.StreamStateOpen {
			return stream, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("the stream is %s", stream.State())
		}
		e.lock.Lock()
		delete(e.streams, id)
		e.lock.Unlock()
	}
}

// keep stores the stream and starts to read it, unless it is being read.
func (e *end) keep(stream *sctp.Stream) {
	e.streams[stream.StreamIdentifier()] = stream
	if !e.reading[stream] {
		e.reading[stream] = true
		go e.read(stream)
	}
}

func (e *end) read(stream *sctp.Stream) {
	into := make([]byte, largest)
	var flow []byte
	id := stream.StreamIdentifier()
	for {
		size, kind, err := stream.ReadSCTP(into)
		if err != nil {
			e.lock.Lock()
			if e.streams[id] == stream {
				delete(e.streams, id)
			}
			e.lock.Unlock()
			if errors.Is(err, io.EOF) {
				report("reset in %d", id)
				// RFC 8831, section 6.7: when the peer resets its stream, this side resets the other direction.
				_ = stream.Close()
			}
			return
		}
		if e.http {
			if kind != e.kind {
				report("fault an answer in messages of kind %d", kind)
			}
			flow = e.hypertext(stream, append(flow, into[:size]...))
			continue
		}
		if size < 4 {
			report("fault message of %d bytes", size)
			continue
		}
		message, verdict := binary.BigEndian.Uint32(into), "ok"
		if !bytes.Equal(into[:size], pattern(message, size)) {
			verdict = "wrong"
		}
		report("message %d %d %d %s", id, message, size, verdict)
	}
}

// hypertext processes the received part of a request or a response, and returns the bytes of an incomplete one.
func (e *end) hypertext(stream *sctp.Stream, flow []byte) []byte {
	head, body, found := bytes.Cut(flow, []byte("\r\n\r\n"))
	if !found {
		return flow
	}
	if e.serves {
		size := 1000
		_, _ = fmt.Sscanf(string(head), "GET /bytes/%d", &size)
		answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", size)
		e.write(stream, []byte(answer))
		for rest := pattern(bodyMessage, size); len(rest) > 0; {
			// pion sends in the order of the writes, even on different streams. So little of each response is
			// queued, and all of them are sent in parallel.
			for stream.BufferedAmount() > mostWaiting {
				time.Sleep(5 * time.Millisecond)
			}
			piece := rest[:min(8000, len(rest))]
			e.write(stream, piece)
			rest = rest[len(piece):]
		}
		return nil
	}
	status, size := 0, 0
	for at, line := range strings.Split(string(head), "\r\n") {
		if at == 0 {
			_, _ = fmt.Sscanf(line, "HTTP/1.1 %d", &status)
		} else if value, found := strings.CutPrefix(strings.ToLower(line), "content-length:"); found {
			size, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	if len(body) < size {
		return flow
	}
	verdict := "ok"
	if !bytes.Equal(body[:size], pattern(bodyMessage, size)[:size]) {
		verdict = "wrong"
	}
	report("body %d %d %d %s", stream.StreamIdentifier(), status, size, verdict)
	return nil
}

func (e *end) write(stream *sctp.Stream, piece []byte) {
	stream.SetReliabilityParams(false, sctp.ReliabilityTypeReliable, 0)
	if _, err := stream.WriteSCTP(piece, e.kind); err != nil {
		report("fault write: %v", err)
	}
}

func (e *end) obey(line string) {
	words := strings.Fields(line)
	value := func(at int) int {
		if at >= len(words) {
			return 0
		}
		value, _ := strconv.Atoi(words[at])
		return value
	}
	switch words[0] {
	case "send":
		if len(words) != 7 {
			report("fault not understood: %s", line)
			return
		}
		stream, err := e.open(uint16(value(2)))
		if err == nil {
			kind := sctp.ReliabilityTypeReliable
			switch words[5] {
			case "t":
				kind = sctp.ReliabilityTypeTimed
			case "r":
				kind = sctp.ReliabilityTypeRexmit
			}
			stream.SetReliabilityParams(words[4] == "u", byte(kind), uint32(value(6)))
			_, err = stream.WriteSCTP(pattern(uint32(value(1)), value(3)), ppidData)
		}
		if err != nil {
			report("fault send on stream %d: %v", value(2), err)
		}
	case "get":
		if stream, err := e.stream(uint16(value(1))); err == nil {
			e.write(stream, []byte("GET "+words[2]+" HTTP/1.1\r\nHost: interop\r\n\r\n"))
		}
	case "shutdown":
		e.closing = true
		go func() {
			limit, cancel := context.WithTimeout(context.Background(), 60*time.Second)
			defer cancel()
			if err := e.association.Shutdown(limit); err != nil {
				report("fault shutdown: %v", err)
			} else {
				report("down shutdown")
			}
		}()
	case "abort":
		e.closing = true
		go e.association.Abort("as told")
	case "reset":
		for at := 1; at < len(words); at++ {
			if stream, err := e.stream(uint16(value(at))); err != nil {
				report("fault reset: %v", err)
			} else if err := stream.Close(); err != nil {
				report("fault reset: %v", err)
			} else {
				e.lock.Lock()
				delete(e.streams, uint16(value(at)))
				e.lock.Unlock()
			}
		}
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "quit":
		os.Exit(0)
	default:
		report("fault not understood: %s", line)
	}
}

// plain opens a connection without encryption.
func plain(local, peer *net.UDPAddr) net.Conn {
	socket, err := net.ListenUDP("udp", local)
	if err != nil {
		fail("bind", err)
	}
	report("ready")
	return &link{UDPConn: socket, peer: peer}
}

// keyLog returns the file for the secrets of DTLS, if SSLKEYLOGFILE names one.
func keyLog() io.Writer {
	name := os.Getenv("SSLKEYLOGFILE")
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fail("key log", err)
	}
	return file
}

// secured opens a DTLS connection, and waits for its handshake.
func secured(local, peer *net.UDPAddr) net.Conn {
	certificate, err := selfsign.GenerateSelfSigned()
	if err != nil {
		fail("certificate", err)
	}
	var conn net.Conn
	// Like pion's WebRTC, the server accepts a client that offers SRTP, even if no media will follow.
	profiles := dtls.WithSRTPProtectionProfiles(dtls.SRTP_AEAD_AES_128_GCM, dtls.SRTP_AES128_CM_HMAC_SHA1_80)
	secrets := dtls.WithKeyLogWriter(keyLog())
	if peer == nil {
		listener, listening := dtls.ListenWithOptions("udp", local, dtls.WithCertificates(certificate), profiles, secrets)
		if listening != nil {
			fail("bind", listening)
		}
		report("ready")
		conn, err = listener.Accept()
	} else {
		socket, binding := net.ListenUDP("udp", local)
		if binding != nil {
			fail("bind", binding)
		}
		report("ready")
		conn, err = dtls.ClientWithOptions(socket, peer, dtls.WithInsecureSkipVerify(true), secrets)
	}
	if err != nil {
		fail("DTLS", err)
	}
	limit, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	both, _ := conn.(*dtls.Conn)
	if err := both.HandshakeContext(limit); err != nil {
		fail("DTLS", err)
	}
	if state, known := both.ConnectionState(); known {
		report("dtls DTLSv1.2 %s", tls.CipherSuiteName(uint16(state.CipherSuiteID)))
	}
	return both
}

func main() {
	port := number("encap", 9899)
	local := &net.UDPAddr{IP: net.ParseIP(word("local", "127.0.0.1")), Port: port}
	var peer *net.UDPAddr
	listens := word("role", "listen") == "listen"
	if !listens {
		peer = &net.UDPAddr{IP: net.ParseIP(word("peer", "127.0.0.1")), Port: port}
	}
	way := plain
	if number("dtls", 0) == 1 {
		way = secured
	}
	conn := way(local, peer)
	var err error
	options := []sctp.AssociationOption{
		sctp.WithNetConn(conn),
		sctp.WithMaxMessageSize(largest),
		sctp.WithMaxReceiveBufferSize(uint32(number("receive_buffer", largest))),
		sctp.WithRTOMax(float64(number("rto_max", 1000))),
		sctp.WithEnableInterleaving(number("idata", 0) == 1),
		sctp.WithEnableZeroChecksum(number("zero_checksum", 0) == 1),
	}
	e := &end{
		streams: map[uint16]*sctp.Stream{}, reading: map[*sctp.Stream]bool{}, serves: listens, http: number("http", 0) == 1,
		kind: sctp.PayloadProtocolIdentifier(number("ppid", int(ppidHTTP))),
	}
	if listens {
		servers := make([]sctp.ServerOption, len(options))
		for at, one := range options {
			servers[at] = one
		}
		e.association, err = sctp.ServerWithOptions(servers...)
	} else {
		clients := make([]sctp.ClientOption, len(options))
		for at, one := range options {
			clients[at] = one
		}
		e.association, err = sctp.ClientWithOptions(clients...)
	}
	if err != nil {
		fail("association", err)
	}
	report("connected")
	go func() {
		for {
			stream, err := e.association.AcceptStream()
			if err != nil {
				// The association has ended. closing says that a command of this side ended it.
				if !e.closing {
					report("down closed")
				} else {
					report("down")
				}
				return
			}
			e.lock.Lock()
			e.keep(stream)
			e.lock.Unlock()
		}
	}()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		report("took")
		if line := strings.TrimSpace(lines.Text()); line != "" {
			e.obey(line)
		}
	}
}
