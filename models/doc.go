// Package models holds ready-made models: nn.Module structs whose parameters have PyTorch's names.
package models
