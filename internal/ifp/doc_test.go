// SPDX-License-Identifier: Apache-2.0

package ifp

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// docs/ifp.md and the code have the same numbers, and both have all.
func TestNumbersAreDocumented(t *testing.T) {
	doc := read(t, "../../docs/ifp.md")
	rows := map[string]uint64{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z_0-9]+) \| (0x[0-9a-f]+|[0-9]+) \|`).FindAllStringSubmatch(doc, -1) {
		n, err := strconv.ParseUint(m[2], 0, 8)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := rows[m[1]]; twice {
			t.Errorf("%s stands twice in the document", m[1])
		}
		rows[m[1]] = n
	}
	want := map[string]uint64{}
	for n, name := range TypeNames {
		want[name] = uint64(n)
	}
	for n, name := range CodeNames {
		want[name] = uint64(n)
	}
	for n, name := range ActionNames {
		want[name] = uint64(n)
	}
	for name, n := range want {
		if got, there := rows[name]; !there || got != n {
			t.Errorf("%s is %d in the code and %d (there: %v) in docs/ifp.md", name, n, got, there)
		}
	}
	if len(rows) != len(want) {
		t.Errorf("%d numbers in the document, %d in the code", len(rows), len(want))
	}
	for _, sentence := range []string{
		fmt.Sprintf("%d bytes for family 4, %d bytes for family 6", FilterLen4, FilterLen6),
		fmt.Sprintf("at most %d bytes", MaxDatagram), fmt.Sprintf("%d bytes. `length`", HeaderLen),
		fmt.Sprintf("%d bytes of signature", ProofLen), fmt.Sprintf("| STATISTICS | 0x83 | border manager | %d bytes", StatLen),
		fmt.Sprintf("is followed by %d bytes", GrantLen), fmt.Sprintf("4 bytes, 1 to\n%d", OwnerMax), fmt.Sprintf("Flag 0x%02x (GRANTS)", FlagGrants),
		fmt.Sprintf("at most %d. `floor`", MaxExpiresS), fmt.Sprintf("n at most %d", MaxFloorLog2),
	} {
		if !strings.Contains(doc, sentence) {
			t.Errorf("docs/ifp.md does not say %q", sentence)
		}
	}
}

// core/patrol.h and core/ifp.h have the same numbers.
func TestNumbersOfTheCore(t *testing.T) {
	c := read(t, "../../core/patrol.h") + read(t, "../../core/ifp.h")
	for name, n := range map[string]int{"TG_FILTER_BLOCK": int(Block), "TG_FILTER_BLOCK_TS0": int(BlockTS0),
		"TG_FILTER_CLEAR_TS": int(ClearTS), "TG_FROM_CUSTOMER": int(FromCustomer), "TG_TO_CUSTOMER": int(ToCustomer),
		"TG_IFP_VERSION": Version, "TG_IFP_HDR_LEN": HeaderLen, "TG_IFP_INSTALL": int(Install),
		"TG_IFP_CONDITIONAL": int(Conditional), "TG_IFP_NONCE": int(Nonce), "TG_IFP_MAX_LEN": MaxDatagram} {
		m := regexp.MustCompile(`\b` + name + `(?: = |\s+)(0x[0-9a-f]+|[0-9]+)`).FindStringSubmatch(c)
		if m == nil {
			t.Errorf("%s is not in the core", name)
			continue
		}
		if got, _ := strconv.ParseInt(m[1], 0, 32); int(got) != n {
			t.Errorf("%s is %d in the core and %d here", name, got, n)
		}
	}
}
