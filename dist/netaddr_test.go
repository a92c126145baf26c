package dist

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestSplitAddr(t *testing.T) {
	for addr, want := range map[string]struct {
		host string
		port uint16
	}{
		"10.0.0.1:80":   {"10.0.0.1", 80},
		"10.0.0.1":      {"10.0.0.1", DefaultPort},
		"node-3:0":      {"node-3", 0},
		"node-3.local":  {"node-3.local", DefaultPort},
		":9":            {"", 9},
		"":              {"", DefaultPort},
		"[::1]:80":      {"::1", 80},
		"[::1]":         {"::1", DefaultPort},
		"::1":           {"::1", DefaultPort},
		"2001:db8::1":   {"2001:db8::1", DefaultPort},
		"0.0.0.0:65535": {"0.0.0.0", 65535},
	} {
		host, port, err := splitAddr(addr, DefaultPort)
		if err != nil || host != want.host || port != want.port {
			t.Errorf("splitAddr(%q) = %q, %d, %v; expected %q, %d", addr, host, port, err, want.host, want.port)
		}
	}
	for _, addr := range []string{"a:b", "a:-1", "a:65536", "a:", "a:1:2", "[::1:80", "a:80x"} {
		if host, port, err := splitAddr(addr, DefaultPort); err == nil || !strings.Contains(err.Error(), addr) {
			t.Errorf("splitAddr(%q) = %q, %d, %v; expected an error that names it", addr, host, port, err)
		}
	}
}

func TestResolve(t *testing.T) {
	for host, want := range map[string]string{"": "0.0.0.0", "127.0.0.1": "127.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "::1": "::1"} {
		if ip, err := resolveOne(t.Context(), host); err != nil || ip.String() != want {
			t.Errorf("resolveOne(%q) = %v, %v; expected %s", host, ip, err, want)
		}
	}
	if ip, err := resolveOne(t.Context(), "localhost"); err != nil || !ip.IsLoopback() {
		t.Errorf("localhost is %v, %v", ip, err)
	}
}

func TestAdvertised(t *testing.T) {
	for _, c := range []struct{ advertise, bound, want string }{
		{"", "10.0.0.1:7", "10.0.0.1:7"},
		{"", "127.0.0.1:7", "127.0.0.1:7"},
		{"192.0.2.1", "0.0.0.0:7", "192.0.2.1:7"},
		{"192.0.2.1:8", "10.0.0.1:7", "192.0.2.1:8"},
		{"192.0.2.1:0", "10.0.0.1:7", "192.0.2.1:7"},
		{"[2001:db8::1]:8", "[::]:7", "[2001:db8::1]:8"},
	} {
		got, err := advertised(t.Context(), c.advertise, netip.MustParseAddrPort(c.bound))
		if err != nil || got.String() != c.want {
			t.Errorf("advertised(%q, %s) = %v, %v; expected %s", c.advertise, c.bound, got, err, c.want)
		}
	}
	for _, advertise := range []string{"0.0.0.0", "[::]:7", "a:b"} {
		if got, err := advertised(t.Context(), advertise, netip.MustParseAddrPort("10.0.0.1:7")); err == nil {
			t.Errorf("advertised(%q) = %v, expected an error", advertise, got)
		}
	}
	// What this machine has decides: an address that others can use, or an
	// error that says what to do.
	got, err := advertised(t.Context(), "", netip.MustParseAddrPort("0.0.0.0:7"))
	if err == nil && (got.Addr().IsUnspecified() || got.Addr().IsLoopback() || got.Port() != 7) {
		t.Errorf("on all interfaces: %v", got)
	}
	if err != nil && !strings.Contains(err.Error(), "--advertise") {
		t.Errorf("on all interfaces: %v", err)
	}
}

func TestAdvertisedData(t *testing.T) {
	ip := net.IPv4(10, 0, 0, 5)
	for _, c := range []struct {
		addr   string
		ip     net.IP
		always bool
		want   string
	}{
		{"", ip, true, ""},
		{"0.0.0.0:7", ip, false, "10.0.0.5:7"},
		{"[::]:7", ip, false, "10.0.0.5:7"},
		{"10.0.0.9:7", ip, false, "10.0.0.9:7"},
		{"10.0.0.9:7", ip, true, "10.0.0.5:7"},
		{"[::ffff:10.0.0.9]:7", ip, false, "10.0.0.9:7"},
		{"127.0.0.1:7", net.IPv4(127, 0, 0, 1), false, "127.0.0.1:7"},
	} {
		if got, err := advertisedData(c.addr, c.ip, c.always); err != nil || got != c.want {
			t.Errorf("advertisedData(%q, %v, %v) = %q, %v; expected %q", c.addr, c.ip, c.always, got, err, c.want)
		}
	}
	for _, addr := range []string{"127.0.0.1:7", "10.0.0.9:0", "10.0.0.9", "host:7"} {
		if got, err := advertisedData(addr, ip, false); err == nil {
			t.Errorf("advertisedData(%q) = %q, expected an error", addr, got)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for want, addrs := range map[bool][]net.Addr{
		true:  {&net.TCPAddr{IP: net.IPv4(127, 1, 2, 3)}, &net.UDPAddr{IP: net.IPv6loopback}, &net.UnixAddr{}},
		false: {&net.TCPAddr{IP: net.IPv4zero}, &net.TCPAddr{IP: net.IPv6unspecified}, &net.TCPAddr{}, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1)}, nil},
	} {
		for _, addr := range addrs {
			if isLoopback(addr) != want {
				t.Errorf("isLoopback(%v) = %v", addr, !want)
			}
		}
	}
}
