// Package core stands in for that of kubevirt.io/virt-template-api, which Go's module mirror does not
// have. Nothing in the lab serves its kind.
package core

const (
	GroupName            = "template.kubevirt.io"
	SingularResourceName = "virtualmachinetemplate"
	PluralResourceName   = "virtualmachinetemplates"
)
