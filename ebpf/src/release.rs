//! The running kernel's version, for what neither its types nor an error tells.

/// True from this version on.
pub(crate) fn is_since(major: u32, minor: u32) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version(&release) >= (major, minor)
}

fn version(release: &str) -> (u32, u32) {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        assert_eq!(version("5.10.0-32-cloud-amd64\n"), (5, 10));
        assert_eq!(version("6.12.117+deb13\n"), (6, 12));
        assert_eq!(version("7-rc1\n"), (7, 0));
        assert_eq!(version(""), (0, 0));
    }
}
