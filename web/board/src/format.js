// Numbers, times and sizes as people read them.

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e9) return value.toLocaleString('en');
  if (size >= 1e6 || size < 1e-4) return value.toExponential(3);
  return String(Number(value.toPrecision(5)));
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  const sign = seconds < 0 ? '−' : '';
  const size = Math.abs(seconds);
  if (size < 60) return `${sign}${Number(size.toPrecision(3))} s`;
  if (size < 3600) return `${sign}${Math.floor(size / 60)} min ${Math.floor(size % 60)} s`;
  if (size < 172800) return `${sign}${Math.floor(size / 3600)} h ${Math.floor((size % 3600) / 60)} min`;
  return `${sign}${Math.floor(size / 86400)} d ${Math.floor((size % 86400) / 3600)} h`;
}

export function time(seconds) {
  if (!seconds || !Number.isFinite(seconds)) return '–';
  const date = new Date(seconds * 1000);
  const two = (part) => String(part).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (count >= 1024 && unit + 1 < units.length) {
    count /= 1024;
    ++unit;
  }
  return `${unit === 0 ? count : count.toFixed(1)} ${units[unit]}`;
}

// A value on the x axis.
export function place(value, axis) {
  if (axis === 'wall') return time(value);
  if (axis === 'relative') return duration(value);
  if (axis === 'epoch') return number(Number(value.toPrecision(4)));
  return number(Number.isInteger(value) ? value : Math.round(value));
}
