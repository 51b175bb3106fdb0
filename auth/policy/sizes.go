package policy

import (
	"cel.dev/cel-go/checker"
	"cel.dev/cel-go/common/types"
)

// sizes tell the estimate of costs how large values can be: the characters of a text, and the
// elements of a list or map. They implement checker.CostEstimator.
type sizes struct {
	text, list    uint64 // of the credentials and of what the server has registered
	argumentTexts uint64
	argumentLists uint64
}

var (
	// usualSizes are for the decision whether an expression is too expensive. With larger values an
	// evaluation is stopped when it has taken too long.
	usualSizes = sizes{text: 4096, list: 100, argumentTexts: 65_536, argumentLists: 100}
	// largestSizes are those that values cannot exceed: credentials come in a header, and arguments in
	// one message. An expression that cannot take too long with these is evaluated without counting.
	largestSizes = sizes{text: 1 << 16, list: 1 << 14, argumentTexts: 1 << 30, argumentLists: 1 << 30}
)

// EstimateSize implements checker.CostEstimator.
func (s sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	ofArguments := len(element.Path()) == 0 || element.Path()[0] == varArguments
	var size uint64
	switch kind := element.Type().Kind(); {
	case kind == types.StringKind && ofArguments:
		size = s.argumentTexts
	case kind == types.StringKind:
		size = s.text
	case kind == types.ListKind || kind == types.MapKind || kind == types.DynKind && ofArguments:
		size = s.list
		if ofArguments {
			size = s.argumentLists
		}
	default:
		size = s.text
	}
	return &checker.SizeEstimate{Min: 0, Max: size}
}

// EstimateCallCost implements checker.CostEstimator.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
