/** Small icons in the colour of the text around them. They are decorative: a label is always beside them. */

const PATHS = {
  check: 'M3.5 8.5l3 3 6-7',
  cross: 'M4 4l8 8M12 4l-8 8',
  warning: 'M8 2.5l6 11H2zM8 6.5v3.2M8 11.6v.2',
  question: 'M6 6a2 2 0 1 1 2.8 1.8c-.6.3-.8.7-.8 1.4M8 11.6v.2',
  lock: 'M4.5 7.5h7v6h-7zM5.8 7.5V5.4a2.2 2.2 0 0 1 4.4 0v2.1',
  plus: 'M8 3v10M3 8h10',
  minus: 'M3 8h10',
  left: 'M10 3L5 8l5 5',
  right: 'M6 3l5 5-5 5',
  down: 'M3 6l5 5 5-5',
  more: 'M3.5 8h.1M8 8h.1M12.5 8h.1',
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.7 10.7L14 14',
  upload: 'M8 11V3M4.5 6.2L8 2.8l3.5 3.4M2.5 13.2h11',
  page: 'M4 1.8h5.5L12.5 5v9.2H4zM9.3 2v3.2h3',
  sun: 'M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8L13 13M13 3l-1.2 1.2M4.2 11.8L3 13',
  spark: 'M8 2l1.4 4.6L14 8l-4.6 1.4L8 14l-1.4-4.6L2 8l4.6-1.4z',
  bin: 'M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 9h6l.5-9',
  stop: 'M4.5 4.5h7v7h-7z',
  clock: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 4.8V8l2.2 1.4',
  filter: 'M2.5 3.5h11L9.3 8.6v4.2l-2.6-1.5V8.6z',
  columns: 'M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10',
  download: 'M8 2.5v8M4.5 7.3L8 10.8l3.5-3.5M2.5 13.5h11',
  tag: 'M2.5 2.5h5.2l5.8 5.8-5.2 5.2-5.8-5.8zM5.3 5.3h.1',
  up: 'M3 10l5-5 5 5',
  pencil: 'M3 13l.8-3.2 7-7 2.4 2.4-7 7zM9.4 4.2l2.4 2.4',
  outlier: 'M2.5 13.5v-4M6.2 13.5v-3M9.8 13.5v-11M13.5 13.5v-4',
  copy: 'M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1',
  fit: 'M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  const width = name === 'more' ? 2.4 : 1.5;
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path
        d={PATHS[name]}
        fill="none"
        stroke="currentColor"
        strokeWidth={width}
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}
