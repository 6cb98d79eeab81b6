// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/plane"
)

// ErrOff is the cause (context.Cause) of a run's end that also removes its packet path. Any other
// end leaves that in place, as the death of the process does: programs, tables and keys are pinned.
var ErrOff = errors.New("off")

// LeaveInstalled ends a run and leaves its packet path in place.
func LeaveInstalled(opt Options, instance string, keysUntil time.Time, log *slog.Logger) error {
	log.Info("stopped; the packet path stays in place and works until its keys expire: start again, or take it down with `tidegate off`",
		"instance", instance, "keys_until", keysUntil.Format(time.RFC3339))
	return editState(opt.StateDir, instance, func(s *StateFile) { s.Stopped = time.Now() })
}

// DrainAsConfigured is the drain time that an instance was configured with.
const DrainAsConfigured = time.Duration(-1)

// takeDownEvery is how often the remaining connections are counted and logged.
const takeDownEvery = time.Second

// handshakesTake is for how long clients that have a cookie are waited for, though no connection is translated.
const handshakesTake = time.Second

// TakeDown removes an instance's packet path; the caller holds its lock. SYNs go to the
// kernel or the server at once. Cookies already sent are accepted for the drain time; translated connections
// continue until the last has ended, or for drain (DrainAsConfigured: as configured). Then everything is removed. When
// force is done, it is removed at once. When ctx is done, what is installed stays as it is then: it answers no SYN and
// keeps translating. It is not an error if nothing is installed.
func TakeDown(ctx, force context.Context, opt Options, instance string, drain time.Duration, log *slog.Logger) error {
	opt.Complete()
	installed := plane.FindInstalled(opt.BPFFS, instance)
	if installed != nil && installed.Patrols() {
		return fmt.Errorf("instance %q is a patrol, whose queues its configuration names: run `tidegate off -c FILE`", instance)
	}
	path := StatePath(opt.StateDir, instance)
	before, err := readState(path)
	if err != nil {
		before = &StateFile{}
	}
	if drain == DrainAsConfigured {
		drain = time.Duration(before.DrainNs)
	}
	if installed != nil && drain > 0 {
		if err := installed.LetSYNsPass(); err != nil {
			return err
		}
		if err := editState(opt.StateDir, instance, func(s *StateFile) { s.Draining = true }); err != nil {
			return err
		}
		left, err := awaitDrain(ctx, force, installed, drain, log)
		if err != nil {
			return err
		}
		if left > 0 {
			log.Warn("the drain is over; the remaining translated connections end", "connections", left)
		}
	}
	var errs []error
	if installed != nil {
		errs = append(errs, installed.Remove())
	}
	errs = append(errs, endPromiscuous(before.Promisc))
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// awaitDrain waits until no connection needs what is installed; left is how many still do after the drain
// time.
func awaitDrain(ctx, force context.Context, i *plane.Installed, drain time.Duration, log *slog.Logger) (left int, err error) {
	began := time.Now()
	end := began.Add(drain)
	if !i.Translates() && !i.Verifies() {
		return 0, nil
	}
	log.Info("draining: SYNs pass; handshakes and connections in progress continue", "for", drain)
	look := time.NewTicker(takeDownEvery)
	defer look.Stop()
	timer := time.NewTimer(drain)
	defer timer.Stop()
	for logged := -1; ; {
		if i.Translates() {
			if left, err = i.Translated(); err != nil || left == 0 && time.Since(began) >= handshakesTake {
				return left, err
			}
			if left != logged && left > 0 {
				log.Info("draining", "translated_connections", left, "left", time.Until(end).Round(time.Second))
				logged = left
			}
		}
		select {
		case <-timer.C:
			if !i.Translates() { // a host, which may also translate
				return i.Translated()
			}
			return left, nil
		case <-force.Done():
			return left, nil
		case <-ctx.Done():
			return left, errors.New("interrupted: SYNs pass, connections continue, and nothing was removed; `tidegate off` ends it, `tidegate run` protects again")
		case <-look.C:
		}
	}
}

// askEvery is how often the process is checked for its end.
const askEvery = 10 * time.Millisecond

// OwnForTakeDown takes the lock of an instance. It ends a process that runs it, which
// leaves its packet path in place; one that must drain itself (plane: dpdk) gets the time for it, unless
// now is set.
func OwnForTakeDown(ctx context.Context, opt Options, instance string, now bool) (unlock func(), err error) {
	opt.Complete()
	asked := 0
	ask := func() error {
		pidfd, err := ownerOf(opt.StateDir, instance)
		if err != nil {
			return err
		}
		defer unix.Close(pidfd)
		asked++
		return unix.PidfdSendSignal(pidfd, unix.SIGTERM, nil, 0)
	}
	for {
		if unlock, err = Lock(opt.StateDir, instance); !errors.Is(err, errRunning) {
			return unlock, err
		}
		if asked == 0 || now && asked == 1 {
			if err := ask(); err != nil {
				if running, lockErr := Running(opt.StateDir, instance); lockErr == nil && !running {
					continue // it has ended by itself
				}
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, errors.New("interrupted: the process was told to end, and nothing was removed")
		case <-time.After(askEvery):
		}
	}
}

// endPromiscuous reverts what Forwarding.Prepare did, here or in an earlier process.
func endPromiscuous(interfaces []string) error {
	var errs []error
	for _, name := range interfaces {
		dev, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.SetPromiscOff(dev)
		}
		var gone netlink.LinkNotFoundError
		if !errors.As(err, &gone) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// End ends a run: with ErrOff as ctx's cause the packet path is removed, else it stays.
func End(ctx, force context.Context, opt Options, instance string, drain time.Duration, keysUntil time.Time, log *slog.Logger) error {
	if !errors.Is(context.Cause(ctx), ErrOff) {
		return LeaveInstalled(opt, instance, keysUntil, log)
	}
	err := TakeDown(context.Background(), force, opt, instance, drain, log)
	log.Info("stopped and taken down", "instance", instance)
	return err
}
