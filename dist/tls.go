package dist

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"sync"
	"time"
)

// ErrWrongKey says that the peer speaks the protocol but does not hold the
// cluster key. The *PeerError around it names the peer.
var ErrWrongKey = errors.New("peer does not hold the cluster key")

// PeerError is a connection that was refused, by either side, before any
// message. Its cause is ErrWrongKey, a deadline, or what TLS found.
type PeerError struct {
	Addr string
	Err  error
}

func (e *PeerError) Error() string { return fmt.Sprintf("peer %s: %v", e.Addr, e.Err) }
func (e *PeerError) Unwrap() error { return e.Err }

// alpn keeps other programs' TLS, and other versions of this protocol, apart
// from the cluster's. In version 1 frames lay in TLS records.
const alpn = "coda/2"

// exporterLabel names the keying material that the proofs are made of
// (RFC 8446 section 7.5); it is unique to a handshake, so that a proof cannot
// be replayed in, or relayed to, another connection.
const exporterLabel = "EXPORTER-coda-cluster-key"

// segmentsLabel names what the keys of segments are made of. Exported values of
// different labels say nothing about each other.
const segmentsLabel = "EXPORTER-coda-segments"

const proofSize = sha256.Size

// Roles differ in their proofs, so that none can be reflected.
const (
	roleClient = 'C'
	roleServer = 'S'
)

// serverCert is made once a process, in memory. Nobody checks it: the proofs
// tie the cluster key to the very keys that the handshake agreed on, which a
// man in the middle cannot share with both sides.
var serverCert = sync.OnceValues(func() (tls.Certificate, error) {
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    now.Add(-24 * time.Hour),
		NotAfter:     now.AddDate(100, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, priv.Public(), priv)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: priv}, nil
})

func tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{alpn},
		SessionTicketsDisabled: true, // every connection proves the key anew
	}
}

func serverConfig() (*tls.Config, error) {
	cert, err := serverCert()
	if err != nil {
		return nil, fmt.Errorf("make a TLS certificate: %w", err)
	}
	config := tlsConfig()
	config.Certificates = []tls.Certificate{cert}
	return config, nil
}

func clientConfig() *tls.Config {
	config := tlsConfig()
	config.InsecureSkipVerify = true // see serverCert: proofs take the certificate's place
	return config
}

// secure runs the handshake and the proofs over a fresh connection, which it
// closes if they fail. Until it returns, nothing but TLS itself and one proof
// of fixed size has been read from the peer, and nothing of it was parsed.
func secure(ctx context.Context, c net.Conn, key Key, role byte) (*Conn, error) {
	conn, err := handshake(ctx, c, key, role)
	if err != nil {
		c.Close()
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		return nil, &PeerError{Addr: c.RemoteAddr().String(), Err: err}
	}
	return conn, nil
}

func handshake(ctx context.Context, c net.Conn, key Key, role byte) (*Conn, error) {
	raw := &recordConn{Conn: c}
	var t *tls.Conn
	if role == roleServer {
		config, err := serverConfig()
		if err != nil {
			return nil, err
		}
		t = tls.Server(raw, config)
	} else {
		t = tls.Client(raw, clientConfig())
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(aLongTimeAgo) })
	defer stop()
	if err := t.Handshake(); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	state := t.ConnectionState()
	if state.NegotiatedProtocol != alpn {
		return nil, fmt.Errorf("TLS handshake: protocol %q, expected %q", state.NegotiatedProtocol, alpn)
	}
	if err := proveKey(t, state, key, role); err != nil {
		return nil, err
	}
	segments, err := sealAfter(c, state, key, role)
	if err != nil {
		return nil, err
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return newSealedConn(c, segments), nil
}

// sealAfter begins the segments that follow the TLS records on c. Each direction
// has a key of its own, made of what the handshake agreed on and of the cluster
// key: HKDF-SHA256 with a secret for its salt.
func sealAfter(c net.Conn, state tls.ConnectionState, key Key, role byte) (*sealedStream, error) {
	exported, err := state.ExportKeyingMaterial(segmentsLabel, nil, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("segment keys: %w", err)
	}
	salt, err := key.derive("coda 2 data plane segments")
	if err != nil {
		return nil, err
	}
	var ciphers []*segmentCipher
	for _, from := range []byte{roleClient, roleServer} {
		secret, err := hkdf.Key(sha256.New, exported, salt, string(from), sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("segment keys: %w", err)
		}
		ciphers = append(ciphers, newSegmentCipher(secret))
	}
	if role == roleClient {
		slices.Reverse(ciphers)
	}
	return newSealedStream(c, ciphers[0], ciphers[1]), nil
}

// proveKey exchanges the proofs: HMAC-SHA256 over the role and the exporter,
// under a key derived from the cluster key. The client goes first. The server
// answers a wrong proof with its own all the same, so that both sides know what
// is wrong; it tells a stranger nothing.
func proveKey(t *tls.Conn, state tls.ConnectionState, key Key, role byte) error {
	exported, err := state.ExportKeyingMaterial(exporterLabel, nil, proofSize)
	if err != nil {
		return fmt.Errorf("key proof: %w", err)
	}
	secret, err := key.derive("coda 1 data plane proof")
	if err != nil {
		return fmt.Errorf("key proof: %w", err)
	}
	proof := func(role byte) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte{role})
		mac.Write(exported)
		return mac.Sum(nil)
	}
	var theirs [proofSize]byte
	if role == roleClient {
		if _, err := t.Write(proof(roleClient)); err != nil {
			return fmt.Errorf("key proof: %w", err)
		}
		if _, err := io.ReadFull(t, theirs[:]); err != nil {
			return fmt.Errorf("key proof: %w", err)
		}
		if !hmac.Equal(theirs[:], proof(roleServer)) {
			return ErrWrongKey
		}
		return nil
	}
	if _, err := io.ReadFull(t, theirs[:]); err != nil {
		return fmt.Errorf("key proof: %w", err)
	}
	if _, err := t.Write(proof(roleServer)); err != nil {
		return fmt.Errorf("key proof: %w", err)
	}
	if !hmac.Equal(theirs[:], proof(roleClient)) {
		return ErrWrongKey
	}
	return nil
}
