// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"tidegate/internal/dpdk"
	"tidegate/internal/instance"
	"tidegate/internal/version"
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
	metrics := newScrape(func() (Reading, error) { return ReadAny(opt, name) }, append(processCollectors(), sharing{opt.Detection})...)
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

// Reading is an instance as it was read once, whatever its role: what `status` shows and what becomes metrics.
type Reading interface {
	metrics(m *series)
}

// ReadAny reads an instance of any role.
func ReadAny(opt instance.Options, name string) (Reading, error) {
	up, err := ReadUpstream(opt, name)
	if err != nil {
		return nil, err
	}
	if up != nil {
		return (*upstreamReading)(up), nil
	}
	st, err := Read(opt, name)
	if err != nil {
		return nil, err
	}
	return st, nil
}

// processCollectors describe this process and its build.
func processCollectors() []prometheus.Collector {
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidegate_build_info", Help: "1; its labels say which build of tidegate this process is",
		ConstLabels: prometheus.Labels{"version": version.Version, "goversion": runtime.Version(), "goarch": runtime.GOARCH}})
	build.Set(1)
	return []prometheus.Collector{build, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector()}
}

// dpdkProcess describes the program that forwards under plane: dpdk.
func dpdkProcess(prefix string) prometheus.Collector {
	return collectors.NewProcessCollector(collectors.ProcessCollectorOpts{Namespace: "tidegate_dpdk",
		PidFn: func() (int, error) { return dpdk.ReadPID(prefix) }})
}

// once is a single reading for Prometheus. It describes nothing beforehand: which series exist
// depends on the role, and the registry checks them at each gathering.
type once struct{ reading Reading }

func (once) Describe(chan<- *prometheus.Desc) {}

func (o once) Collect(out chan<- prometheus.Metric) { o.reading.metrics(&series{out: out}) }

// series makes metrics of numbers that were counted elsewhere.
type series struct {
	out   chan<- prometheus.Metric
	descs map[string]*prometheus.Desc
}

// pair is a label and its value.
type pair [2]string

func (s *series) add(kind prometheus.ValueType, name, help string, v float64, labels []pair) {
	names, values := make([]string, len(labels)), make([]string, len(labels))
	for i, l := range labels {
		names[i], values[i] = l[0], l[1]
	}
	desc, ok := s.descs[name] // of one name, all series have the same labels
	if !ok {
		desc = prometheus.NewDesc("tidegate_"+name, help, names, nil)
		if s.descs == nil {
			s.descs = map[string]*prometheus.Desc{}
		}
		s.descs[name] = desc
	}
	s.out <- prometheus.MustNewConstMetric(desc, kind, v, values...)
}

func (s *series) gauge(name, help string, v float64, labels ...pair) {
	s.add(prometheus.GaugeValue, name, help, v, labels)
}

// counter adds "_total" to the name.
func (s *series) counter(name, help string, v uint64, labels ...pair) {
	s.add(prometheus.CounterValue, name+"_total", help, float64(v), labels)
}

// info is a gauge of value 1 whose labels carry the information.
func (s *series) info(name, help string, labels ...pair) { s.gauge(name+"_info", help, 1, labels...) }

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
