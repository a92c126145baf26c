package nn

import "reflect"

// hashable tells whether a value can be the key of a map by identity.
func hashable(key any) bool {
	return key != nil && reflect.TypeOf(key).Kind() == reflect.Pointer && reflect.TypeOf(key).Elem().Size() > 0
}
