package evaluate

// The stack of a goroutine grows by copies, each to twice its size, and a copy takes about 100 ns for each call on
// it. An evaluation has some 10 to 20 calls for each level of a value: copies would take more time than all else that a small
// value with many levels needs. So the stack grows once, before there are calls on it.

// What some levels of a value need, and from how many on the stack grows.
const (
	fewLevels, fewLevelsStack   = 4, 16 << 10 // bytes
	manyLevels, manyLevelsStack = 16, 64 << 10
)

// growStack makes room on the stack for the evaluation of a value of so many levels.
func growStack(levels int) {
	switch {
	case levels > manyLevels:
		occupy[[manyLevelsStack]byte]()
	case levels > fewLevels:
		occupy[[fewLevelsStack]byte]()
	}
}

// occupy needs a stack with room for a T.
//
//go:noinline
func occupy[T any]() {
	var room T
	look(&room)
}

//go:noinline
func look[T any](*T) {}
