// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"tidegate/internal/api"
)

// watchMost is how many packets `why --watch` shows: of one client, more is no explanation.
const watchMost = 10_000

// watchedPacket is a packet from or to the source, and what was decided about it.
type watchedPacket struct {
	Time     time.Time `json:"time"`
	Packet   string    `json:"packet"`   // "SYN 192.0.2.7:5555 > 198.51.100.1:443"
	Decision string    `json:"decision"` // as in the comments of a capture
}

// watchSummary is how often each was decided.
type watchSummary struct {
	Decisions map[string]int `json:"decisions"` // "SYN: drop: syn, drop_denied; service web; xdp"
	Beyond    uint64         `json:"beyond"`    // packets of whomever that were not looked at, because there were too many
}

// watchAndShow is watch, as text or JSON.
func watchAndShow(cmd *cobra.Command, name string, src netip.Addr, port uint16, duration time.Duration, asJSON bool) error {
	out, began := cmd.OutOrStdout(), time.Now()
	each := func(p watchedPacket) error {
		if asJSON {
			return json.NewEncoder(out).Encode(p)
		}
		_, err := fmt.Fprintf(out, "%s  %s  %s\n", p.Time.Format("15:04:05.000"), p.Packet, p.Decision)
		return err
	}
	if !asJSON {
		fmt.Fprintf(out, "watching packets from and to %s for %s; Ctrl-C ends it\n", src, duration)
	}
	sum, err := watch(cmd.Context(), name, src, port, duration, each)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(out).Encode(sum)
	}
	sum.show(out, src, time.Since(began))
	return nil
}

// watch captures the packets of a source for a time, and calls each for every one that moved a counter. Ctrl-C ends it early.
func watch(ctx context.Context, name string, src netip.Addr, port uint16, duration time.Duration, each func(watchedPacket) error) (*watchSummary, error) {
	ctx, cancel := signal.NotifyContext(ctx, os.Interrupt, unix.SIGTERM)
	defer cancel()
	query := url.Values{"net": {src.String()}, "duration": {duration.String()}, "count": {strconv.Itoa(watchMost)}}
	if port != 0 {
		query.Set("port", strconv.Itoa(int(port)))
	}
	r, err := api.NewClient(stateDir, name).Capture(ctx, query)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	sum := &watchSummary{Decisions: map[string]int{}}
	packets, err := pcapgo.NewNgReader(r.Body, pcapgo.NgReaderOptions{WantMixedLinkType: true})
	for err == nil {
		var p watchedPacket
		var flags string
		if p, flags, err = nextWatched(packets); err == nil {
			sum.Decisions[flags+": "+p.Decision]++
			err = each(p)
		}
	}
	switch {
	case !errors.Is(err, io.EOF):
		return sum, err
	case r.Trailer.Get(api.CaptureError) != "":
		return sum, errors.New(r.Trailer.Get(api.CaptureError))
	}
	sum.Beyond, _ = strconv.ParseUint(r.Trailer.Get(api.CaptureBeyond), 10, 64)
	return sum, nil
}

func nextWatched(packets *pcapgo.NgReader) (p watchedPacket, flags string, err error) {
	data, info, options, err := packets.ReadPacketDataWithOptions()
	if err != nil {
		return p, "", err
	}
	link, err := packets.Interface(info.InterfaceIndex)
	if err != nil {
		return p, "", err
	}
	var ends string
	flags, ends = describePacket(data, link.LinkType)
	return watchedPacket{Time: info.Timestamp, Packet: strings.TrimSpace(flags + " " + ends), Decision: strings.Join(options.Comments, "; ")}, flags, nil
}

// describePacket names a packet's flags, "SYN-ACK", and its ends, "192.0.2.7:5555 > 198.51.100.1:443".
func describePacket(data []byte, link layers.LinkType) (flags, ends string) {
	packet := gopacket.NewPacket(data, link, gopacket.DecodeOptions{NoCopy: true, Lazy: true})
	network := packet.NetworkLayer()
	if network == nil {
		return "packet", ""
	}
	src, dst := network.NetworkFlow().Endpoints()
	tcp, is := packet.Layer(layers.LayerTypeTCP).(*layers.TCP)
	if !is {
		return "packet", src.String() + " > " + dst.String()
	}
	end := func(e gopacket.Endpoint, port layers.TCPPort) string {
		addr, _ := netip.AddrFromSlice(e.Raw())
		return netip.AddrPortFrom(addr, uint16(port)).String()
	}
	return flagsOf(tcp), end(src, tcp.SrcPort) + " > " + end(dst, tcp.DstPort)
}

func flagsOf(tcp *layers.TCP) string {
	var set []string
	for _, f := range []struct {
		is   bool
		name string
	}{{tcp.SYN, "SYN"}, {tcp.FIN, "FIN"}, {tcp.RST, "RST"}, {tcp.ACK, "ACK"}} {
		if f.is {
			set = append(set, f.name)
		}
	}
	if len(set) == 0 {
		return "no flags"
	}
	return strings.Join(set, "-")
}

// show prints what was decided, the most frequent first.
func (s *watchSummary) show(out io.Writer, src netip.Addr, lasted time.Duration) {
	if len(s.Decisions) == 0 {
		fmt.Fprintf(out, "in %s the gate decided about no packet from or to %s: none came to its interfaces (a filter before it drops them, or they take another way), or all belong to connections that it leaves alone\n",
			lasted.Round(time.Second), src)
	}
	for _, what := range slices.SortedFunc(maps.Keys(s.Decisions), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Decisions[b], s.Decisions[a]), strings.Compare(a, b))
	}) {
		fmt.Fprintf(out, "%6d × %s\n", s.Decisions[what], what)
	}
	if s.Beyond > 0 {
		fmt.Fprintf(out, "%d packets were not looked at, because there were too many; some may be of %s\n", s.Beyond, src)
	}
}
