package attack

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
)

// A header that a proxy routes by must say what the body says: a request that names two things is
// refused, whichever is the first.
func TestConflictingRoutingHeadersAreRefused(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	base64Name := func(text string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?=" }
	echo := s.rawEcho(1)
	for name, raw := range map[string]rawRequest{
		"another name":                 echo.set("Mcp-Name", "paid"),
		"another name, encoded":        echo.set("Mcp-Name", base64Name("paid")),
		"the name, badly encoded":      echo.set("Mcp-Name", "=?base64?ZWNob?="),
		"the encoding in capitals":     echo.set("Mcp-Name", strings.ToUpper("=?base64?")+"ZWNobw==?="),
		"two names":                    echo.with("Mcp-Name: paid"),
		"two names, the good one last": echo.without("Mcp-Name").with("Mcp-Name: paid").with("Mcp-Name: echo"),
		"the same name twice":          echo.with("Mcp-Name: echo"),
		"names in a list":              echo.set("Mcp-Name", "echo, paid"),
		"a name in capitals":           echo.set("Mcp-Name", "ECHO"),
		"a name over two lines":        echo.without("Mcp-Name").with("Mcp-Name: ec\r\n ho"),
		"no name":                      echo.without("Mcp-Name"),
		"an underscore":                echo.without("Mcp-Name").with("Mcp_Name: echo"),
		"another method":               echo.set("Mcp-Method", "tools/list"),
		"two methods":                  echo.with("Mcp-Method: tools/list"),
		"the same method twice":        echo.with("Mcp-Method: tools/call"),
		"a method in capitals":         echo.set("Mcp-Method", "Tools/Call"),
		"no method":                    echo.without("Mcp-Method"),
		"two versions":                 echo.with("MCP-Protocol-Version: 2025-11-25"),
		"the same version twice":       echo.with("mcp-protocol-version: 2026-07-28"),
		"a legacy version":             echo.set("MCP-Protocol-Version", "2025-11-25"),
		"no version":                   echo.without("MCP-Protocol-Version"),
		"an unknown version":           echo.set("MCP-Protocol-Version", "2099-01-01"),
	} {
		all := s.exchange(t, raw.String())
		if len(all) != 1 || all[0].status != http.StatusBadRequest || all[0].Result != nil || all[0].code() != codeHeaderMismatch {
			t.Errorf("%s: %+v", name, all)
		}
	}
	if all := s.exchange(t, echo.set("Mcp-Name", base64Name("echo")).String()); len(all) != 1 || all[0].text() != "hello" {
		t.Errorf("an encoded name is refused: %+v", all)
	}
	undisturbed()
}

// An argument that a proxy reads in a header must be that of the body, in the modern era, in which
// clients send it.
func TestConflictingArgumentHeadersAreRefused(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	eu := s.rawEcho(1).set("Mcp-Name", "regional")
	eu.body = call{tool: "regional", arguments: `{"region":"eu"}`}.frame(1, true)
	none := s.rawEcho(1).set("Mcp-Name", "regional")
	none.body = call{tool: "regional"}.frame(1, true)
	attacks := map[string]rawRequest{
		"another region":                 eu.with("Mcp-Param-Region: us"),
		"another region, encoded":        eu.with("Mcp-Param-Region: =?base64?dXM=?="),
		"the region, badly encoded":      eu.with("Mcp-Param-Region: =?base64?ZXU?="),
		"the region in capitals":         eu.with("Mcp-Param-Region: EU"),
		"two regions":                    eu.with("Mcp-Param-Region: eu").with("Mcp-Param-Region: us"),
		"two regions, the good one last": eu.with("Mcp-Param-Region: us").with("Mcp-Param-Region: eu"),
		"the same region twice":          eu.with("Mcp-Param-Region: eu").with("mcp-param-region: eu"),
		"regions in a list":              eu.with("Mcp-Param-Region: eu, us"),
		"no region":                      eu,
		"an empty region":                eu.with("Mcp-Param-Region: "),
		"an underscore":                  eu.with("Mcp-Param_Region: eu"),
		"a region that the body lacks":   none.with("Mcp-Param-Region: eu"),
	}
	for name, raw := range attacks {
		all := s.exchange(t, raw.String())
		if len(all) != 1 || all[0].status != http.StatusBadRequest || all[0].Result != nil || all[0].code() != codeHeaderMismatch {
			t.Errorf("%s: %+v", name, all)
		}
	}
	for _, good := range []string{"Mcp-Param-Region: eu", "mcp-param-region: =?base64?ZXU=?="} {
		if all := s.exchange(t, eu.with(good).String()); len(all) != 1 || all[0].text() != "in eu" {
			t.Errorf("%s is refused: %+v", good, all)
		}
	}
	undisturbed()
}
