// A QUIC peer in quic-go. Arguments are KEY=VALUE.
//
//	quic-go role=listen local=ADDRESS:PORT [streams=N] [window=BYTES]
//	quic-go role=connect local=ADDRESS peer=ADDRESS:PORT [requests=N] [size=BYTES]
//
// The server reads each stream to its end, and answers with as many bytes as a small response has. streams and window
// limit the streams that the client may open at a time, and the bytes of flow control; without them, the defaults of
// quic-go hold. The client opens a stream for each request as soon as it may, and sends the bytes of the request. It
// exits with 0 when all answers have arrived. SSLKEYLOGFILE names the file for the secrets of the client.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	protocol   = "interop"
	answerSize = 100
	limit      = 60 * time.Second
)

func fail(what string, err error) {
	fmt.Printf(": fault %s: %v\n", what, err)
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
	text := word(key, "")
	if text == "" {
		return otherwise
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		fail(key, err)
	}
	return value
}

func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		fail("key", err)
	}
	form := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, &form, &form, &key.PublicKey, key)
	if err != nil {
		fail("certificate", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// keyLog returns the file for the secrets of TLS, if SSLKEYLOGFILE names one.
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

// config returns the settings of both ends. The packets keep their size, so that a capture has no probes of the path MTU.
func config() *quic.Config {
	settings := quic.Config{DisablePathMTUDiscovery: true, MaxIncomingStreams: int64(number("streams", 0))}
	if window := uint64(number("window", 0)); window > 0 {
		settings.InitialStreamReceiveWindow, settings.MaxStreamReceiveWindow = window, window
		settings.InitialConnectionReceiveWindow, settings.MaxConnectionReceiveWindow = window, window
	}
	return &settings
}

func answer(stream *quic.Stream) {
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return
	}
	if _, err := stream.Write(make([]byte, answerSize)); err == nil {
		_ = stream.Close()
	}
}

func listen() {
	security := &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{protocol}}
	listener, err := quic.ListenAddr(word("local", "127.0.0.1:4433"), security, config())
	if err != nil {
		fail("listen", err)
	}
	fmt.Println(": ready")
	for {
		connection, err := listener.Accept(context.Background())
		if err != nil {
			fail("accept", err)
		}
		go func() {
			for {
				stream, err := connection.AcceptStream(context.Background())
				if err != nil {
					return
				}
				go answer(stream)
			}
		}()
	}
}

func ask(stream *quic.Stream, size int) {
	if _, err := stream.Write(make([]byte, size)); err != nil {
		fail("write", err)
	}
	if err := stream.Close(); err != nil {
		fail("close", err)
	}
	if got, err := io.Copy(io.Discard, stream); err != nil || got != answerSize {
		fail(fmt.Sprintf("an answer of %d bytes", got), err)
	}
}

func connect() {
	peer, err := net.ResolveUDPAddr("udp", word("peer", "127.0.0.1:4433"))
	if err != nil {
		fail("address", err)
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(word("local", "127.0.0.1"))})
	if err != nil {
		fail("bind", err)
	}
	within, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	security := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}, KeyLogWriter: keyLog()}
	connection, err := quic.Dial(within, socket, peer, security, config())
	if err != nil {
		fail("connect", err)
	}
	var all sync.WaitGroup
	for range number("requests", 1) {
		stream, err := connection.OpenStreamSync(within)
		if err != nil {
			fail("open", err)
		}
		all.Go(func() { ask(stream, number("size", answerSize)) })
	}
	all.Wait()
	_ = connection.CloseWithError(0, "")
	fmt.Println(": done")
}

func main() {
	switch role := word("role", ""); role {
	case "listen":
		listen()
	case "connect":
		connect()
	default:
		fail("role", fmt.Errorf("%q is neither listen nor connect", role))
	}
}
