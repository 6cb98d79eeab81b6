// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"tidegate/internal/api"
)

func newCaptureCmd() *cobra.Command {
	var name, file, prefix string
	var reasons []string
	var port uint16
	var sample, count uint32
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "capture",
		Short: "Write packets, and what was decided about each and why, as pcapng",
		Long: `Write packets that a running instance decides about as pcapng, with the decision and its reasons as comments: the verdict, the counters that moved, the
service, the hook. The file has the first 256 bytes of each packet as received. Wireshark and tshark show the comments (frame.comment).

While a capture lasts, programs that capture run around those of the gate, and take a few percent of a processor at the most: each looks at 30,000 packets a
second. Nothing of it is in the packet path otherwise, on any plane. Ctrl-C ends it.`,
		Example: "  tidegate capture -w web.pcapng --port 443 --reason drop\n  tidegate capture --reason drop_malformed --net 192.0.2.0/24 --duration 5m | tshark -r - -T fields -e ip.src -e frame.comment",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{"reason": reasons, "sample": {strconv.Itoa(int(sample))}, "count": {strconv.Itoa(int(count))}, "duration": {duration.String()}}
			if prefix != "" {
				query.Set("net", prefix)
			}
			if port != 0 {
				query.Set("port", strconv.Itoa(int(port)))
			}
			return capture(cmd, name, file, query)
		},
	}
	cmd.Flags().StringVar(&name, "instance", "default", "`NAME` of the instance")
	cmd.Flags().StringVarP(&file, "write", "w", "-", "`FILE` to write; - is standard output")
	cmd.Flags().StringSliceVar(&reasons, "reason", nil, "only packets with this `COUNTER` (docs/counters.md) or verdict (pass, drop, tx, redirect, hold); may be repeated")
	cmd.Flags().StringVar(&prefix, "net", "", "only from or to this `PREFIX` or address")
	cmd.Flags().Uint16Var(&port, "port", 0, "only from or to this `PORT`")
	cmd.Flags().Uint32Var(&sample, "sample", 1, "look at one packet of `N`")
	cmd.Flags().Uint32Var(&count, "count", 1000, "end after `N` packets")
	cmd.Flags().DurationVar(&duration, "duration", time.Minute, "end after `TIME`, 1h at the most")
	return cmd
}

func capture(cmd *cobra.Command, name, file string, query url.Values) error {
	ctx, cancel := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM)
	defer cancel()
	out := cmd.OutOrStdout()
	if f, is := out.(*os.File); file == "-" && is && term.IsTerminal(int(f.Fd())) {
		return errors.New("a capture is no text; name a file with -w FILE, or pipe it into tshark -r -")
	}
	r, err := api.NewClient(stateDir, name).Capture(ctx, query)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	where := "standard output"
	if file != "-" {
		where = file
		f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		out = f
	}
	n, err := io.Copy(writerOf{out, where}, r.Body)
	if failed := (writeError{}); errors.As(err, &failed) {
		return fmt.Errorf("%w; the capture has ended after %d bytes, which may end within a packet; traffic is not affected", err, n)
	}
	if err == nil && r.Trailer.Get(api.CaptureError) != "" {
		err = errors.New(r.Trailer.Get(api.CaptureError))
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("the instance did not answer when asked to end the capture; %d bytes in %s, which may end within a packet: %w", n, where, err)
	case err != nil:
		return fmt.Errorf("the instance has ended the capture: %w", err)
	}
	text := fmt.Sprintf("%s packets in %s", r.Trailer.Get(api.CaptureCount), where)
	if lost := r.Trailer.Get(api.CaptureLost); lost != "0" {
		text += "; " + lost + " lost, because they were not written fast enough"
	}
	if beyond := r.Trailer.Get(api.CaptureBeyond); beyond != "0" {
		text += "; " + beyond + " not looked at, because there were too many (--net, --port or --sample chooses)"
	}
	fmt.Fprintln(cmd.ErrOrStderr(), text)
	return nil
}

// writerOf tells errors of writing from those of reading.
type writerOf struct {
	io.Writer
	name string
}

type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

func (w writerOf) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err != nil {
		if path := (*os.PathError)(nil); errors.As(err, &path) { // which has the name
			err = path.Err
		}
		err = writeError{fmt.Errorf("write %s: %w", w.name, err)}
	}
	return n, err
}
