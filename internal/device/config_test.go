// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The layouts of this package are those that lwip/Makefile builds.
func TestLayouts(t *testing.T) {
	text, err := os.ReadFile("../../lwip/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^LAYOUTS := (.*)$`).FindSubmatch(text)
	if m == nil {
		t.Fatal("lwip/Makefile has no LAYOUTS")
	}
	if built := strings.Fields(string(m[1])); !slices.Equal(built, Layouts()) {
		t.Errorf("lwip/Makefile builds %q, this package knows %q", built, Layouts())
	}
}
