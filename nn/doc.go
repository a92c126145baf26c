// Package nn holds modules on a gorgonia graph.
package nn
