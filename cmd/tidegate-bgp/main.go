// SPDX-License-Identifier: Apache-2.0

// Tidegate-bgp speaks BGP for `tidegate run`, which starts it, and ends when that does: with its sessions end its routes. It decides
// nothing; docs/routers.md describes it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"tidegate/internal/routers/bgp"
	"tidegate/internal/routers/speaker"
	"tidegate/internal/version"
)

func main() {
	if len(os.Args) > 1 {
		if os.Args[1] == "--version" {
			fmt.Println("tidegate-bgp", version.Version)
			return
		}
		fmt.Fprintln(os.Stderr, "tidegate-bgp takes no arguments; `tidegate run` starts it if its configuration has `bgp`")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := dropPrivileges()
	if err == nil {
		err = run(ctx, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// closeTime is for the notifications that end the sessions.
const closeTime = 3 * time.Second

var errSilent = errors.New("no order has come for " + speaker.OrderTime.String() + ": tidegate hangs, so that its routes are withdrawn")

// run follows orders until they end, or do not come.
func run(ctx context.Context, in io.Reader, out io.Writer) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	orders := make(chan speaker.Order)
	go read(in, orders)
	first, ok := <-orders
	if !ok || first.Settings == nil {
		return errors.New("the first line on standard input must have the settings; `tidegate run` writes it")
	}
	b, err := bgp.Start(ctx, first.Settings, log)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		_ = b.Close(ctx)
	}()
	enc := json.NewEncoder(out)
	silence := time.NewTimer(speaker.OrderTime)
	defer silence.Stop()
	problem := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-silence.C:
			return errSilent
		case o, ok := <-orders:
			if !ok {
				return nil
			}
			silence.Reset(speaker.OrderTime)
			problem = ""
			if err := b.Announce(o.Paths); err != nil {
				problem = err.Error()
			}
		case <-b.Changed():
		}
		r := b.Report()
		r.Error = problem
		if err := enc.Encode(r); err != nil {
			return nil // nobody reads: tidegate has ended
		}
	}
}

// read passes on orders until the input ends or is none.
func read(in io.Reader, to chan<- speaker.Order) {
	defer close(to)
	for d := json.NewDecoder(bufio.NewReader(in)); ; {
		var o speaker.Order
		if err := d.Decode(&o); err != nil {
			return
		}
		to <- o
	}
}
