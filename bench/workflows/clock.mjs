// Milliseconds of the wall clock with fractions: the processes of one machine agree on it.
export const now = () => performance.timeOrigin + performance.now();
