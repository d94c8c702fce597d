//! Attributes of items, and which of them say that something is compiled for tests alone.
//!
//! Invariant: what some build without tests has is not a test's.

use syn::punctuated::Punctuated;
use syn::{Attribute, Item, Meta, Token};

/// Whether these hold a `#[cfg(…)]` that only a build of tests fulfils.
pub(super) fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<Meta>()
                .is_ok_and(|condition| needs_tests(&condition))
    })
}

fn needs_tests(condition: &Meta) -> bool {
    let Meta::List(list) = condition else {
        return condition.path().is_ident("test");
    };
    let Ok(parts) = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) else {
        return false;
    };
    match list.path.get_ident() {
        Some(word) if word == "all" => parts.iter().any(needs_tests),
        Some(word) if word == "any" => !parts.is_empty() && parts.iter().all(needs_tests),
        _ => false,
    }
}

/// The attributes of an item.
pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
