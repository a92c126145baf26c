package dist

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/hashicorp/go-sockaddr"
)

// DefaultPort is the gossip port where an address names none.
const DefaultPort = 7946

// splitAddr splits "host:port", "host", ":port" or "" into a host (empty for
// all interfaces) and a port. "[v6]" is understood, and so is a bare v6 address.
func splitAddr(addr string, defaultPort uint16) (host string, port uint16, err error) {
	bare := addr
	if strings.HasPrefix(addr, "[") && strings.HasSuffix(addr, "]") {
		bare = addr[1 : len(addr)-1]
	}
	if ip, err := netip.ParseAddr(bare); err == nil {
		return ip.String(), defaultPort, nil
	}
	if !strings.Contains(addr, ":") {
		return addr, defaultPort, nil
	}
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: %w", addr, err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: port %q, expected 0 to 65535", addr, text)
	}
	return host, uint16(n), nil
}

// CheckSeed tells whether an address can be one of Seeds: "host:port", or a host
// alone for DefaultPort. It looks nothing up.
func CheckSeed(addr string) error {
	host, port, err := splitAddr(addr, DefaultPort)
	if err == nil && (host == "" || port == 0) {
		err = fmt.Errorf("address %q: host and port are needed", addr)
	}
	return err
}

// resolve gives the addresses of a host; an empty one means all interfaces.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if host == "" {
		return []netip.Addr{netip.IPv4Unspecified()}, nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", host, err)
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("address %q: the name has no address", host)
	}
	for i, ip := range ips {
		ips[i] = ip.Unmap()
	}
	return ips, nil
}

// resolveOne prefers IPv4, as a listener on the name of this machine does.
func resolveOne(ctx context.Context, host string) (netip.Addr, error) {
	ips, err := resolve(ctx, host)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, ip := range ips {
		if ip.Is4() {
			return ip, nil
		}
	}
	return ips[0], nil
}

// isLoopback tells whether only this machine can reach an address that was
// listened on or dialled.
func isLoopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UDPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

var errNoAdvertise = errors.New("no network interface has an address that other machines could use; name one with --advertise")

// interfaceAddr picks the address that others should use for a node that
// listens on all interfaces: a private one, else a public one.
func interfaceAddr() (netip.Addr, error) {
	for _, pick := range []func() (string, error){sockaddr.GetPrivateIP, sockaddr.GetPublicIP} {
		text, err := pick()
		if err != nil {
			return netip.Addr{}, fmt.Errorf("%w: %w", errNoAdvertise, err)
		}
		if ip, err := netip.ParseAddr(text); err == nil {
			return ip.Unmap(), nil
		}
	}
	return netip.Addr{}, errNoAdvertise
}

// advertised gives the address and port under which others reach a node: what
// advertise says, or else where it is bound.
func advertised(ctx context.Context, advertise string, bound netip.AddrPort) (netip.AddrPort, error) {
	if advertise == "" {
		if !bound.Addr().IsUnspecified() {
			return bound, nil
		}
		ip, err := interfaceAddr()
		return netip.AddrPortFrom(ip, bound.Port()), err
	}
	host, port, err := splitAddr(advertise, bound.Port())
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("advertise %w", err)
	}
	ip, err := resolveOne(ctx, host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("advertise %w", err)
	}
	if ip.IsUnspecified() {
		return netip.AddrPort{}, fmt.Errorf("advertise address %q: others cannot connect to it", advertise)
	}
	if port == 0 {
		port = bound.Port()
	}
	return netip.AddrPortFrom(ip, port), nil
}
