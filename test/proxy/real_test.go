// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// Real servers and real clients, with every service under flood.

const (
	portHTTPS = 443
	portSSH   = 22
	portSMTP  = 25
)

// program finds a program that tools/deps.sh installs.
func program(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed: apt-get install %s", name, pkg)
	}
	return path
}

// realConfig protects the ports of these servers.
func (w *world) realConfig(strategy string) string {
	return strings.Replace(w.config(strategy), fmt.Sprintf("[%d]", port), fmt.Sprintf("[%d, %d, %d, %d]", port, portHTTPS, portSSH, portSMTP), 1)
}

// serverProcess runs a server until the test ends and waits until it listens.
func (w *world) serverProcess(listens []uint16, argv ...string) {
	w.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	var out harness.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := w.Server.Do(cmd.Start); err != nil {
		w.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	w.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(patience):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-exited
		}
		if w.t.Failed() {
			w.t.Logf("%s said:\n%s", argv[0], out.String())
		}
	})
	for _, p := range listens {
		for _, ipv6 := range families() {
			w.await(fmt.Sprintf("%s on port %d", argv[0], p), func() bool {
				select {
				case <-exited:
					w.t.Fatalf("%s ended: %s", argv[0], out.String())
				default:
				}
				return w.Server.Do(func() error {
					c, err := net.DialTimeout("tcp", w.ServiceAddr(ipv6, p).String(), time.Second)
					if err == nil {
						c.Close()
					}
					return err
				}) == nil
			})
		}
	}
}

// clientRun runs a client to its end and returns what it printed.
func (w *world) clientRun(argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := w.Client.Do(cmd.Start); err != nil {
		return "", err
	}
	if err := cmd.Wait(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", argv[0], err, errs.String())
	}
	return out.String(), nil
}

// host is the service's address as in a URL.
func (w *world) host(ipv6 bool) string {
	a := w.ServiceAddr(ipv6, 0).Addr()
	if ipv6 {
		return "[" + a.String() + "]"
	}
	return a.String()
}

func (w *world) write(name string, data []byte, mode os.FileMode) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, data, mode); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// startNginx serves a file of random bytes over TLS, HTTP/1.1 and HTTP/2.
func (w *world) startNginx(file []byte) {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"lab"}}
	cert, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		w.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		w.t.Fatal(err)
	}
	certPath := w.write("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o644)
	keyPath := w.write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
	if err := os.MkdirAll(filepath.Join(w.dir, "www"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.write("www/file", file, 0o644)
	listen := fmt.Sprintf("listen %s:%d ssl http2;", w.host(false), portHTTPS)
	if rig.HaveIPv6() {
		listen += fmt.Sprintf(" listen %s:%d ssl http2;", w.host(true), portHTTPS)
	}
	conf := w.write("nginx.conf", fmt.Appendf(nil, `daemon off; master_process off; pid %[1]s/nginx.pid; error_log stderr error;
user root;
events { worker_connections 256; }
http {
    access_log off;
    client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
    server { %[2]s ssl_certificate %[3]s; ssl_certificate_key %[4]s; root %[1]s/www; }
}
`, w.dir, listen, certPath, keyPath), 0o644)
	w.serverProcess([]uint16{portHTTPS}, program(w.t, "nginx", "nginx"), "-p", w.dir, "-e", "stderr", "-c", conf)
}

// HTTP/1.1 and HTTP/2 over TLS, by nginx and curl, under flood.
func TestRealHTTPS(t *testing.T) {
	curl := program(t, "curl", "curl")
	file := make([]byte, 3<<20)
	_, _ = rand.Read(file)
	sum := sha256.Sum256(file)
	w := newWorld(t, false)
	w.startNginx(file)
	w.start(w.realConfig("cookie"))
	for _, ipv6 := range families() {
		w.floodSYNs(ipv6, portHTTPS, 20000)
		for _, version := range []struct{ flag, want string }{{"--http1.1", "1.1 200"}, {"--http2", "2 200"}} {
			got := filepath.Join(w.dir, "got")
			out, err := w.clientRun(curl, version.flag, "-sSk", "-o", got, "-w", "%{http_version} %{http_code}", "https://"+w.host(ipv6)+"/file")
			if err != nil || out != version.want {
				t.Errorf("%s %s: %q, %v", familyName(ipv6), version.flag, out, err)
				continue
			}
			if data, err := os.ReadFile(got); err != nil || sha256.Sum256(data) != sum {
				t.Errorf("%s %s: %d bytes came, and not those that were sent (%v)", familyName(ipv6), version.flag, len(data), err)
			}
		}
		// Several requests on one connection.
		out, err := w.clientRun(curl, "--http2", "-sSk", "--fail", "-o", "/dev/null", "-o", "/dev/null", "-o", "/dev/null", "-w", "%{num_connects} ",
			"https://"+w.host(ipv6)+"/file", "https://"+w.host(ipv6)+"/file", "https://"+w.host(ipv6)+"/file")
		if err != nil || out != "1 0 0 " {
			t.Errorf("%s: three requests: %q, %v; want one connection", familyName(ipv6), out, err)
		}
	}
	w.wantCounters(map[string]uint64{"cookie_invalid": 0, "flow_refused": 0})
}

// SSH: the server speaks first; a command and 1 MiB through the session.
func TestRealSSH(t *testing.T) {
	sshd, ssh, keygen := program(t, "sshd", "openssh-server"), program(t, "ssh", "openssh-client"), program(t, "ssh-keygen", "openssh-client")
	w := newWorld(t, false)
	for _, name := range []string{"host", "user"} {
		if out, err := exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(w.dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // the directory to which sshd chroots
		t.Fatal(err)
	}
	listen := fmt.Sprintf("ListenAddress %s\n", w.ServiceAddr(false, portSSH))
	if rig.HaveIPv6() {
		listen += fmt.Sprintf("ListenAddress %s\n", w.ServiceAddr(true, portSSH))
	}
	conf := w.write("sshd_config", fmt.Appendf(nil, "%sHostKey %[2]s/host\nAuthorizedKeysFile %[2]s/user.pub\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nMaxStartups 100\n", listen, w.dir), 0o600)
	w.serverProcess([]uint16{portSSH}, sshd, "-D", "-e", "-f", conf)
	w.start(w.realConfig("cookie"))
	for _, ipv6 := range families() {
		w.floodSYNs(ipv6, portSSH, 20000)
		out, err := w.clientRun(ssh, "-F", "none", "-i", filepath.Join(w.dir, "user"), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
			"-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "root@"+w.ServiceAddr(ipv6, 0).Addr().String(), "head -c 1048576 /dev/zero | sha256sum")
		const want = "30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58"
		if err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("%s: %q, %v", familyName(ipv6), out, err)
		}
	}
	w.wantCounters(map[string]uint64{"cookie_invalid": 0, "flow_refused": 0})
}

// SMTP: the server speaks first, and a mail arrives whole.
func TestRealSMTP(t *testing.T) {
	smtpd, curl := program(t, "smtpd", "opensmtpd"), program(t, "curl", "curl")
	w := newWorld(t, false)
	listen := fmt.Sprintf("listen on %s port %d hostname mail.test\n", w.ServiceAddr(false, 0).Addr(), portSMTP)
	if rig.HaveIPv6() {
		listen += fmt.Sprintf("listen on %s port %d hostname mail.test\n", w.ServiceAddr(true, 0).Addr(), portSMTP)
	}
	const nobody = 65534 // recipient of the mail: it is not delivered to root
	box := filepath.Join(w.dir, "mail")
	if err := errors.Join(os.Mkdir(box, 0o700), os.Chown(box, nobody, nobody), os.Chmod(w.dir, 0o755), os.Chmod(filepath.Dir(w.dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	// It resolves its clients' names before it greets them: here DNS fails at once.
	for _, family := range []string{"-4", "-6"} {
		cmd := exec.Command("ip", family, "rule", "add", "ipproto", "udp", "dport", "53", "priority", "1", "unreachable")
		if err := w.Server.Do(func() error { return cmd.Run() }); err != nil && (family == "-4" || rig.HaveIPv6()) {
			t.Fatalf("ip rule: %v", err)
		}
	}
	conf := w.write("smtpd.conf", fmt.Appendf(nil, "%saction keep maildir \"%s/mail\" virtual { \"@mail.test\" = nobody }\nmatch from any for domain \"mail.test\" action keep\n", listen, w.dir), 0o600)
	w.serverProcess([]uint16{portSMTP}, smtpd, "-d", "-f", conf)
	w.start(w.realConfig("cookie"))
	for _, ipv6 := range families() {
		w.floodSYNs(ipv6, portSMTP, 20000)
		text := "Subject: " + familyName(ipv6) + "\r\n\r\n" + strings.Repeat("0123456789abcdef0123456789abcdef\r\n", 3000)
		mail := w.write("mail-"+familyName(ipv6), []byte(text), 0o644)
		if _, err := w.clientRun(curl, "-sS", "--url", fmt.Sprintf("smtp://%s:%d/client.test", w.host(ipv6), portSMTP), "--mail-from", "a@client.test", "--mail-rcpt", "b@mail.test", "--upload-file", mail); err != nil {
			t.Fatalf("%s: %v", familyName(ipv6), err)
		}
		w.await("the mail is delivered", func() bool {
			found, _ := filepath.Glob(filepath.Join(w.dir, "mail", "new", "*"))
			for _, f := range found {
				data, _ := os.ReadFile(f)
				if bytes.Contains(data, []byte("Subject: "+familyName(ipv6))) && bytes.Count(data, []byte("0123456789abcdef0123456789abcdef")) == 3000 {
					return true
				}
			}
			return false
		})
	}
	w.wantCounters(map[string]uint64{"cookie_invalid": 0, "flow_refused": 0})
}
