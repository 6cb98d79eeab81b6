// SPDX-License-Identifier: Apache-2.0

package howto

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// What a page calls systemctl: start, stop, restart, reload, enable --now, disable --now and is-active of a unit NAME@INSTANCE, by
// the project's own unit file. Of the unit, Type=notify, ExecStart and ExecReload count; its sandbox needs systemd, and
// make test-packages has that. It runs as root, not as the unit's user, whose files the pages make all the same.

// unitRun is the directory with the pids of running units.
const unitRun = "/run/tidegate/.units"

func systemctl(args []string) error {
	now := slices.Contains(args, "--now")
	args = slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
	if len(args) != 2 {
		return fmt.Errorf("want VERB UNIT, not %q", args)
	}
	verb, unit := args[0], strings.TrimSuffix(args[1], ".service")
	if (verb == "enable" || verb == "disable") && !now {
		return nil // only affects the next boot
	}
	switch verb {
	case "start", "enable":
		return startUnit(unit)
	case "stop", "disable":
		return stopUnit(unit)
	case "restart":
		return errors.Join(stopUnit(unit), startUnit(unit))
	case "reload":
		pid, err := unitPID(unit)
		if err != nil {
			return err
		}
		command, err := unitField(unit, "ExecReload")
		if err != nil {
			return err
		}
		cmd := exec.Command("sh", "-c", strings.ReplaceAll(command, "$MAINPID", strconv.Itoa(pid)))
		return cmd.Run()
	case "is-active":
		_, err := unitPID(unit)
		return err
	}
	return fmt.Errorf("unknown verb %q", verb)
}

// unitField is a line of the unit's file, with %i as the instance's name.
func unitField(unit, name string) (string, error) {
	template, instance, _ := strings.Cut(unit, "@")
	text, err := os.ReadFile(filepath.Join(os.Getenv("HOWTO_UNITS"), template+"@.service"))
	if err != nil {
		return "", fmt.Errorf("unit %s: %w", unit, err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.ReplaceAll(strings.TrimSpace(value), "%i", instance), nil
		}
	}
	return "", fmt.Errorf("unit %s has no %s", unit, name)
}

func unitPID(unit string) (int, error) {
	text, err := os.ReadFile(filepath.Join(unitRun, unit))
	if err != nil {
		return 0, fmt.Errorf("%s is not active", unit)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, err
	}
	return pid, syscall.Kill(pid, 0)
}

func startUnit(unit string) error {
	if _, err := unitPID(unit); err == nil {
		return nil
	}
	command, err := unitField(unit, "ExecStart")
	if err != nil {
		return err
	}
	kind, err := unitField(unit, "Type")
	if err != nil {
		return err
	}
	if kind != "notify" {
		return fmt.Errorf("%s: Type is %q, want notify", unit, kind)
	}
	if err := os.MkdirAll(unitRun, 0o700); err != nil {
		return err
	}
	socket := filepath.Join(unitRun, unit+".notify")
	_ = os.Remove(socket)
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer l.Close()
	log, err := os.OpenFile(filepath.Join(unitRun, unit+".log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	argv := strings.Fields(command)
	cmd := exec.Command(filepath.Base(argv[0]), argv[1:]...) // the one in PATH is this tree's
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(unitRun, unit), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		l.Close()
	}()
	state := make([]byte, 256)
	n, err := l.Read(state)
	if err == nil && strings.Contains(string(state[:n]), "READY=1") {
		return nil
	}
	text, _ := os.ReadFile(log.Name())
	_ = os.Remove(filepath.Join(unitRun, unit))
	return errors.Join(fmt.Errorf("%s failed to start:\n%s", unit, text), <-ended)
}

func stopUnit(unit string) error {
	pid, err := unitPID(unit)
	if err != nil {
		return nil // it is not running
	}
	defer os.Remove(filepath.Join(unitRun, unit))
	return endProcess(pid)
}

// endProcess sends SIGTERM, and waits until the process has ended.
func endProcess(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return err
	}
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(5 * time.Millisecond) { // not our child: no event reports its end
		if syscall.Kill(pid, 0) != nil {
			return nil
		}
		if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(state), ") Z ") {
			return nil
		}
	}
	return fmt.Errorf("process %d does not end", pid)
}
