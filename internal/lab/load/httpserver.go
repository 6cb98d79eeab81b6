// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tidegate/internal/lab/rig"
)

// serverKinds are the values of --server.
const (
	ServerAuto    = "auto"
	ServerNginx   = "nginx"
	ServerBuiltin = "builtin"
)

// ChooseServer resolves auto: nginx if it is installed, else the built-in one.
func ChooseServer(kind string) (string, error) {
	_, err := exec.LookPath("nginx")
	switch kind {
	case ServerAuto, "":
		if err != nil {
			return ServerBuiltin, nil
		}
		return ServerNginx, nil
	case ServerNginx:
		if err != nil {
			return "", fmt.Errorf("nginx is not installed: apt-get install nginx-light, or use --server builtin")
		}
		return kind, nil
	case ServerBuiltin:
		return kind, nil
	}
	return "", fmt.Errorf("server %q: want auto, nginx or builtin", kind)
}

// StartServer starts the web server and waits until it accepts connections
// from inside its own namespace.
func StartServer(ctx context.Context, t *rig.Topology, kind, dir, self string, cpu, size, backlog int) (*rig.Process, error) {
	argv := []string{self, childServer, strconv.Itoa(size)}
	if kind == ServerNginx {
		conf, err := writeNginxConfig(dir, size, backlog)
		if err != nil {
			return nil, err
		}
		argv = []string{"nginx", "-p", dir, "-e", "stderr", "-c", conf}
	}
	p, err := rig.StartProcess(t.Server, cpu, nil, nil, argv...)
	if err != nil {
		return nil, err
	}
	addrs := []netip.AddrPort{rig.ServiceAddr(false)}
	if rig.HaveIPv6() {
		addrs = append(addrs, rig.ServiceAddr(true))
	}
	for _, a := range addrs {
		if err := waitListening(ctx, t.Server, p, a); err != nil {
			p.Stop(time.Second)
			return nil, err
		}
	}
	return p, nil
}

func waitListening(ctx context.Context, n *rig.Namespace, p *rig.Process, a netip.AddrPort) error {
	for deadline := time.Now().Add(10 * time.Second); ; {
		err := n.Do(func() error { return tryConnect(a) })
		if err == nil {
			return nil
		}
		select {
		case <-p.Exited:
			return fmt.Errorf("web server ended: %w", p.Failure())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("web server does not accept connections on %s: %w", a, err)
		}
	}
}

// tryConnect makes one blocking connection on the calling thread, which is in
// the right namespace; net.Dial might use another thread.
func tryConnect(a netip.AddrPort) error {
	fd, err := tcpSocket(a.Addr().Is6(), 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return syscall.Connect(fd, sockaddr(a))
}

// writeNginxConfig writes a configuration for a single process: a worker would
// outlive a master that was killed with -9. The request decides which side closes.
func writeNginxConfig(dir string, size, backlog int) (string, error) {
	root := filepath.Join(dir, "www")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(root, "index.html"), []byte(strings.Repeat("x", size)), 0o644); err != nil {
		return "", err
	}
	queue := "" // nginx's default
	if backlog > 0 {
		queue = fmt.Sprintf(" backlog=%d", backlog)
	}
	listen := fmt.Sprintf("listen %d%s;", rig.ServicePort, queue)
	if rig.HaveIPv6() {
		listen += fmt.Sprintf(" listen [::]:%d%s;", rig.ServicePort, queue)
	}
	conf := fmt.Sprintf(`daemon off;
master_process off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log stderr error;
events { worker_connections 8192; }
http {
    access_log off;
    default_type text/plain;
    keepalive_timeout 15s;
    open_file_cache max=8;
    client_body_temp_path %[1]s/body;
    proxy_temp_path %[1]s/proxy;
    fastcgi_temp_path %[1]s/fastcgi;
    uwsgi_temp_path %[1]s/uwsgi;
    scgi_temp_path %[1]s/scgi;
    server { %[2]s root %[3]s; }
}
`, dir, listen, root)
	path := filepath.Join(dir, "nginx.conf")
	return path, os.WriteFile(path, []byte(conf), 0o644)
}

// serveBuiltin is the body of the hidden child `tidegate-lab _httpd SIZE`: a small HTTP
// server on plain TCP sockets. MPTCP is off, since the kernel cannot adopt for
// an MPTCP listener.
func serveBuiltin(size int) error {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), "tcp", ":"+strconv.Itoa(rig.ServicePort))
	if err != nil {
		return err
	}
	body := strings.Repeat("x", size)
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " + strconv.Itoa(size)
	keep := []byte(head + "\r\nConnection: keep-alive\r\n\r\n" + body)
	last := []byte(head + "\r\nConnection: close\r\n\r\n" + body)
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go serveConn(c, keep, last)
	}
}

// serveConn answers requests until one says close, the peer closes, or the
// connection is idle for 15 seconds.
func serveConn(c net.Conn, keep, last []byte) {
	defer c.Close()
	buf := make([]byte, 0, 2048)
	for {
		_ = c.SetReadDeadline(time.Now().Add(15 * time.Second))
		n, err := c.Read(buf[len(buf):cap(buf)])
		if err != nil || n == 0 {
			return
		}
		buf = buf[:len(buf)+n]
		end := strings.Index(string(buf), "\r\n\r\n")
		if end < 0 {
			continue
		}
		if strings.Contains(string(buf[:end]), "Connection: close") {
			_, _ = c.Write(last)
			return
		}
		if _, err := c.Write(keep); err != nil {
			return
		}
		buf = buf[:copy(buf, buf[end+4:])]
	}
}
