/** How everything looks that opens over the page: menus, selects, popovers, the command list. */

export const popupClass =
  'rounded-lg border border-border bg-popover p-1 text-sm text-foreground shadow-lg outline-none ' +
  'transition-opacity duration-100 data-ending-style:opacity-0 data-starting-style:opacity-0';

export const itemClass =
  'flex min-h-7 w-full cursor-default items-center gap-2 rounded-md px-2 py-1 text-left text-sm outline-none ' +
  'select-none data-disabled:text-faint data-highlighted:bg-hover max-sm:min-h-11 max-sm:text-base';

export const backdropClass =
  'fixed inset-0 z-40 bg-black/25 transition-opacity duration-150 data-ending-style:opacity-0 data-starting-style:opacity-0';
