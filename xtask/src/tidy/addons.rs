//! An addon is one folder or file below `tenant-cp/src/addons/` and one line of its registry: nobody else names
//! its module, so that adding one touches nothing else.
//!
//! Invariant: tests may name one; and so may a program that is one, in its tests. What a user may ask for
//! (`spec.addons.…`) and what the operator is configured with are no modules of addons.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::source::{code, is_of_tests, test_lines};
use super::text::Text;

const FOLDER: &str = "tenant-cp/src/addons/";
const REGISTRY: &str = "tenant-cp/src/addons/registry.rs";
/// What is no addon there.
const SHARED: [&str; 4] = ["adapter", "addon", "manifest", "registry"];

/// Every line that names the module of an addon outside of it, and every addon that is not in the registry.
pub(super) fn check(texts: &[Text]) -> Vec<Finding> {
    let addons: BTreeSet<&str> = texts.iter().filter_map(|text| addon(&text.path)).collect();
    let judged = texts.iter().filter(|text| is_judged(&text.path));
    let mut findings: Vec<_> = judged.flat_map(|text| named(text, &addons)).collect();
    for text in texts.iter().filter(|text| text.path == REGISTRY) {
        let missing = addons.iter().filter(|addon| {
            let import = format!("use crate::addons::{addon}::");
            !text.text.contains(&import)
        });
        findings.extend(missing.map(|addon| Finding {
            path: REGISTRY.to_owned(),
            line: 1,
            message: format!("{addon} is not in the list of addons"),
        }));
    }
    findings
}

/// Which addon a file is of.
fn addon(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(FOLDER)?;
    let (first, _) = rest.split_once('/').or_else(|| rest.split_once('.'))?;
    (!SHARED.contains(&first)).then_some(first)
}

fn is_judged(path: &str) -> bool {
    path.ends_with(".rs") && path.contains("/src/") && !is_of_tests(path) && path != REGISTRY
}

fn named(text: &Text, addons: &BTreeSet<&str>) -> Vec<Finding> {
    let own = addon(&text.path);
    let tests: BTreeSet<_> = test_lines(text).into_iter().map(|(at, _)| at).collect();
    let (mut found, mut in_list) = (Vec::new(), false);
    for (line, at) in text.text.lines().zip(1..) {
        if tests.contains(&at) {
            continue;
        }
        let line = code(line);
        // A list of imports may take several lines.
        let names = match line.split_once("addons::") {
            Some((_, rest)) => rest,
            None if in_list => line,
            None => continue,
        };
        in_list = (in_list || names.starts_with('{')) && !names.contains('}');
        let mut words = match names.starts_with('{') || !line.contains("addons::") {
            true => names.split(|c: char| !is_of_name(c)).collect::<Vec<_>>(),
            false => names.split(|c: char| !is_of_name(c)).take(1).collect(),
        };
        words.retain(|word| addons.contains(word) && Some(*word) != own);
        found.extend(words.into_iter().map(|word| Finding {
            path: text.path.clone(),
            line: at,
            message: format!("ask the trait Addon, not the addon {word}"),
        }));
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, source: &str) -> Vec<String> {
        let text = |path: &str, text: &str| Text {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let registry = "use crate::addons::csi::Csi;\nuse crate::addons::dns::Dns;\n";
        let texts = [
            text("tenant-cp/src/addons/csi/node.rs", ""),
            text("tenant-cp/src/addons/dns.rs", ""),
            text("tenant-cp/src/addons/manifest.rs", ""),
            text(REGISTRY, registry),
            text(path, source),
        ];
        let findings = check(&texts).into_iter();
        findings
            .map(|f| format!("{}: {}", f.line, f.message))
            .collect()
    }

    #[test]
    fn addon_that_is_named_outside_of_it_is_found() {
        let message = "1: ask the trait Addon, not the addon csi";
        for line in [
            "use tenant_cp::addons::csi::NAME;",
            "use crate::addons::{csi, registry};",
            "let name = crate::addons::csi::NAME;",
        ] {
            assert_eq!(found("operator/src/rbac.rs", line), [message], "{line}");
        }
        let list = "use tenant_cp::addons::{\n    addon, dns,\n};\nuse other::csi;\n";
        assert_eq!(
            found("tenant-cp/src/quota.rs", list),
            ["2: ask the trait Addon, not the addon dns"]
        );
    }

    #[test]
    fn addon_names_itself_and_tests_name_any() {
        let line = "use tenant_cp::addons::csi::NAME;";
        let tests = format!("#[cfg(test)]\nmod tests {{\n    {line}\n}}\n");
        for (path, source) in [
            ("tenant-cp/src/addons/csi/deployment.rs", line),
            ("csi-proxy/src/rbac.rs", tests.as_str()),
            ("operator/tests/t1/csi.rs", line),
            (
                "operator/src/rbac.rs",
                "let on = spec.addons.csi.enabled; // addons::csi",
            ),
            ("operator/src/rbac.rs", "use tenant_cp::addons::registry;"),
        ] {
            assert_eq!(found(path, source), [""; 0], "{path}: {source}");
        }
    }

    #[test]
    fn addon_that_is_not_in_the_list_is_found() {
        assert_eq!(
            found("tenant-cp/src/addons/other.rs", ""),
            ["1: other is not in the list of addons"]
        );
    }
}
