//! Flags of `covey sysdump`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::waiting::time;

/// `covey sysdump`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Sysdump {
    /// The tenant cluster; without it all of the namespace
    pub(crate) name: Option<String>,
    /// Tenant clusters of all namespaces
    #[arg(long, short = 'A', conflicts_with = "name")]
    pub(crate) all_namespaces: bool,
    /// The archive, which must not be there yet; without it covey-sysdump-<TIME>.tar.gz in the current folder
    #[arg(long, short = 'f', value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Of logs only what is younger: 10m, 1h
    #[arg(long, default_value = "1h", value_parser = time, value_name = "TIME")]
    pub(crate) since: Duration,
    /// Most bytes of everything together, before it is compressed, 1Mi to 1Gi; of logs the end is kept
    #[arg(long, default_value = "100Mi", value_name = "BYTES", value_parser = mebibytes)]
    pub(crate) max_size: u32,
    /// Put a keyed hash in the place of each name and address; what it stands for is in <FILE>.names, which you keep
    #[arg(long, conflicts_with = "list")]
    pub(crate) anonymize: bool,
    /// List what would be in it, and write nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Namespace of the operator
    #[arg(long, env = "COVEY_OPERATOR_NAMESPACE", default_value = "covey-system")]
    pub(crate) operator_namespace: String,
}

/// Mebibytes of `100Mi` or `1Gi`; a number alone is of mebibytes.
fn mebibytes(text: &str) -> Result<u32, String> {
    let (number, times) = match (text.strip_suffix("Mi"), text.strip_suffix("Gi")) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1024),
        (None, None) => (text, 1),
    };
    let number = number.parse::<u32>().ok();
    let size = number.and_then(|number| number.checked_mul(times));
    size.filter(|size| (1..=1024).contains(size))
        .ok_or_else(|| "write a size from 1Mi to 1Gi, as 100Mi".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_in_kubernetes() {
        assert_eq!(
            (mebibytes("100Mi"), mebibytes("1Gi"), mebibytes("5")),
            (Ok(100), Ok(1024), Ok(5))
        );
        for bad in ["0Mi", "2Gi", "100M", "", "Mi", "-1", "4294967295Gi"] {
            assert!(mebibytes(bad).is_err(), "{bad}");
        }
    }
}
