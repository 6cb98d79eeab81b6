package labtest

import (
	"testing"
	"time"
)

func Main(m *testing.M, tidegate *string, prepare ...func() error) int { return 0 }
func NeedRoot(t *testing.T)                                             {}
func Await(t *testing.T, what string, patience, pause time.Duration, reached func() bool) {
}
