//! A confidence interval of a median, from the order of the samples.
//!
//! The number of samples below the true median is binomial with a chance of one half, whatever the
//! samples' distribution is. The interval leaves out as many samples at each end as leave a chance
//! of at most 2.5% there.

/// Returns the 95% confidence interval of the median of sorted samples. With fewer than six samples
/// that is all of them.
pub(super) fn interval(sorted: &[f64]) -> (f64, f64) {
    let count = sorted.len();
    let (mut chance, mut sum, mut cut) = (0.5_f64.powi(count as i32), 0.0, 0);
    while cut < count {
        sum += chance;
        if sum > 0.025 {
            break;
        }
        cut += 1;
        chance *= (count - cut + 1) as f64 / cut as f64;
    }
    // One sample beyond the cut is still inside.
    let first = cut.saturating_sub(1).min(count.saturating_sub(1));
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    (at(first), at(count.saturating_sub(1 + first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_known_sizes() {
        let samples: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(interval(&samples), (6.0, 15.0));
        assert_eq!(interval(&samples[..10]), (2.0, 9.0));
        assert_eq!(interval(&samples[..5]), (1.0, 5.0));
        assert_eq!(interval(&samples[..1]), (1.0, 1.0));
        assert!(interval(&[]).0.is_nan());
    }
}
