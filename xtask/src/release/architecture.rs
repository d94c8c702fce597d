//! Architectures that programs are made for, and what a machine of another one needs for that.
//!
//! Invariant: pure. Names are Go's, as images and Debian have them; `target` is Rust's.

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Architecture {
    /// x86-64
    Amd64,
    /// 64-bit ARM
    Arm64,
}

impl Architecture {
    /// That of this machine, where releases are made for it.
    pub(crate) fn own() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::Amd64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }

    /// As images call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Rust's target. glibc's, linked statically: it is what tests run.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// `e_machine` of its programs (elf.h).
    pub(crate) fn elf_machine(self) -> u16 {
        match self {
            Self::Amd64 => 62,
            Self::Arm64 => 183,
        }
    }

    /// The C compiler that links for it on a machine of another architecture.
    pub(crate) fn cross_compiler(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu-gcc",
            Self::Arm64 => "aarch64-linux-gnu-gcc",
        }
    }

    /// What is to be installed for it where the target or the compiler lacks; nothing where neither does.
    pub(crate) fn lacks(self, has_target: bool, has_compiler: bool) -> Option<String> {
        let mut install = Vec::new();
        if !has_target {
            install.push(format!("`rustup target add {}`", self.target()));
        }
        if !has_compiler {
            // gcc-x86-64-linux-gnu and gcc-aarch64-linux-gnu, libc6-dev-amd64-cross and libc6-dev-arm64-cross.
            let gcc = self.cross_compiler().trim_end_matches("-gcc");
            let (gcc, name) = (gcc.replace('_', "-"), self.name());
            install.push(format!(
                "`apt-get install gcc-{gcc} libc6-dev-{name}-cross`"
            ));
        }
        (!install.is_empty()).then(|| {
            format!(
                "this machine cannot make programs for {}: {} first",
                self.name(),
                install.join(" and ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Architecture::{Amd64, Arm64};

    #[test]
    fn what_lacks_is_said_with_how_to_install_it() {
        assert_eq!(Arm64.lacks(true, true), None);
        let both = Arm64.lacks(false, false).unwrap();
        assert_eq!(
            both,
            "this machine cannot make programs for arm64: `rustup target add aarch64-unknown-linux-gnu` and \
             `apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross` first"
        );
        let compiler = Amd64.lacks(true, false).unwrap();
        assert!(compiler.contains("gcc-x86-64-linux-gnu libc6-dev-amd64-cross"));
        assert!(!compiler.contains("rustup"));
    }
}
