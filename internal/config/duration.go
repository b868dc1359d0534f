package config

import "strings"

// duration tells whether a text is a duration as Java reads them, and not
// negative: PnDTnHnMn.nS with at least one number.
func duration(s string) bool {
	rest, ok := strings.CutPrefix(strings.ToUpper(s), "P")
	if !ok {
		return false
	}
	days, clock, timed := strings.Cut(rest, "T")
	if timed == (clock == "") || days == "" && !timed {
		return false
	}
	amounts(&days, "D")
	for _, unit := range []string{"H", "M", "S"} {
		amounts(&clock, unit)
	}
	return days == "" && clock == ""
}

// amounts takes a number with its unit off the front of a text, if it is there.
func amounts(s *string, unit string) {
	number, rest, ok := strings.Cut(*s, unit)
	whole, part, fraction := strings.Cut(number, ".")
	if !ok || !digits(whole) || fraction && (unit != "S" || len(part) > 9 || part != "" && !digits(part)) {
		return
	}
	*s = rest
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
