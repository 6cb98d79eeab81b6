// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tidegate/internal/instance"
	"tidegate/internal/schema"
)

// metricsTime bounds a request, in both directions.
const metricsTime = 10 * time.Second

// ServeMetrics serves an instance's counters at http://ADDRESS/metrics until ctx ends,
// in the text format of Prometheus: what `status` shows, at most a second old, whichever
// the role and its plane. It never changes anything. The result ends it.
func ServeMetrics(ctx context.Context, opt instance.Options, name string, at netip.AddrPort, log *slog.Logger) (stop func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", at.String())
	if err != nil {
		return nil, fmt.Errorf("metrics: %w; choose another address or port", err)
	}
	mux := http.NewServeMux()
	metrics := newScrape(func() (*Status, error) { return Read(opt, name) })
	mux.Handle("GET /metrics", metrics)
	server := &http.Server{Handler: mux, ReadTimeout: metricsTime, WriteTimeout: metricsTime, IdleTimeout: metricsTime,
		MaxHeaderBytes: headerMax, ConnState: metrics.connState}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("metrics are no longer served", "error", err)
		}
	}()
	return func() {
		_ = server.Close()
		<-done
	}, nil
}

// WriteMetrics writes a status in the text format of Prometheus: each counter of
// core/counters.def by service ("" is what belongs to none), and a few gauges.
func WriteMetrics(w io.Writer, st *Status) error {
	out := &strings.Builder{}
	labels := fmt.Sprintf("instance=%q,role=%q", st.Instance, st.Role)
	gauge := func(name, help string, v float64) {
		fmt.Fprintf(out, "# HELP tidegate_%s %s\n# TYPE tidegate_%s gauge\ntidegate_%s{%s} %g\n", name, help, name, name, labels, v)
	}
	gauge("running", "1 if the process runs; the packet path of XDP lives on without it", number(st.Running))
	gauge("keys_until_seconds", "when the loaded keys end, Unix time", float64(st.KeysUntil.Unix()))
	gauge("one_sided", "1 if servers' answers do not pass here", number(st.OneSided))
	if d := st.DPDK; d != nil {
		gauge("flows", "translated connections in the tables", float64(d.Flows))
		gauge("sources", "whitelisted sources in the tables", float64(d.Sources))
	}
	if e := st.Edge; e != nil {
		gauge("filter_fp_rate", "share of unknown flows that the filter takes for known, measured", e.FPMeasured)
		gauge("filter_alarm", "1 if the filter is saturated", number(e.Alarm))
	}
	st.P4.metrics(gauge, func(name, help string, v uint64) {
		fmt.Fprintf(out, "# HELP tidegate_%s_total %s\n# TYPE tidegate_%s_total counter\ntidegate_%s_total{%s} %d\n", name, help, name, name, labels, v)
	})
	degraded(out, labels, st.Services)
	for i := range schema.NumCounters {
		c := schema.Counter(i)
		rows := map[string]uint64{}
		if v := st.Global[c.String()]; v != 0 {
			rows[""] = v
		}
		for _, s := range st.Services {
			rows[s.Name] = s.Counters[c.String()]
		}
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(out, "# HELP tidegate_%s_total %s\n# TYPE tidegate_%s_total counter\n", c, escapeHelp(c.Help()), c)
		for _, service := range slices.Sorted(maps.Keys(rows)) {
			fmt.Fprintf(out, "tidegate_%s_total{%s,service=%q} %d\n", c, labels, service, rows[service])
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func escapeHelp(s string) string { return strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(s) }
