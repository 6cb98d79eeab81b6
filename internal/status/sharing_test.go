// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"tidegate/internal/detect"
	"tidegate/internal/instance"
)

// What others see becomes metrics, for the services that share.
func TestSharingMetrics(t *testing.T) {
	known := &instance.Shared{SharedReading: detect.SharedReading{On: true, Sum: detect.Reading{Missing: 36}, Attacked: []string{"gate2"}}, Heard: 19, Prepared: true}
	all := prometheus.NewRegistry()
	all.MustRegister(sharing{instance.DetectionOf(instance.DetectorState{Service: "web", Fleet: known}, instance.DetectorState{Service: "alone"})})
	families, err := all.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got = append(got, strings.TrimSpace(f.GetName()+" "+m.GetLabel()[0].GetValue()+" "+m.GetGauge().String()))
		}
	}
	want := []string{"tidegate_fleet_attack web value:1", "tidegate_fleet_nodes_attacked web value:1", "tidegate_fleet_nodes_heard web value:19", "tidegate_fleet_prepared web value:1",
		"tidegate_fleet_uncompleted_per_second web value:36"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
