/** The name of a control that shows only an icon, with its keys. It adds nothing that the control's own name lacks, so it
 * is hidden from screen readers. One element shows all tooltips: a control only carries the text. */

import { useEffect, useRef } from 'react';
import { keyText } from './keyText';

const DELAY_MS = 400;
const GAP = 6;

/** Attributes of a control with a tooltip. */
export function tooltip(text: string, keys?: string, side: 'top' | 'right' = 'top') {
  return {
    'data-tooltip': text,
    'data-tooltip-keys': keys === undefined ? undefined : keyText(keys),
    'data-tooltip-side': side,
  };
}

export function TooltipLayer() {
  const layer = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const shown = layer.current!;
    const controller = new AbortController();
    const options = { signal: controller.signal, capture: true, passive: true };
    let timer: ReturnType<typeof setTimeout> | undefined;
    let owner: Element | null = null;
    const hide = () => {
      clearTimeout(timer);
      owner = null;
      if (shown.matches(':popover-open')) shown.hidePopover();
    };
    const enter = (event: Event) => {
      const at = event.target instanceof Element ? event.target.closest<HTMLElement>('[data-tooltip]') : null;
      if (at === owner) return;
      const isNext = owner !== null && shown.matches(':popover-open');
      hide();
      if (at === null || (event.type === 'focusin' && !at.matches(':focus-visible'))) return;
      owner = at;
      timer = setTimeout(() => show(shown, at), isNext ? 0 : DELAY_MS);
    };
    document.addEventListener('pointerover', enter, options);
    document.addEventListener('focusin', enter, options);
    for (const name of ['pointerdown', 'focusout', 'keydown', 'scroll']) document.addEventListener(name, hide, options);
    return () => {
      hide();
      controller.abort();
    };
  }, []);
  return (
    <div
      ref={layer}
      popover="manual"
      aria-hidden="true"
      className="pointer-events-none fixed m-0 gap-2 rounded-md border-0 bg-foreground px-2 py-1 text-xs whitespace-nowrap text-background shadow-md open:flex">
      <span />
      <span className="opacity-70" />
    </div>
  );
}

function show(layer: HTMLDivElement, at: HTMLElement) {
  if (!at.isConnected) return;
  const { tooltip: text = '', tooltipKeys: keys = '', tooltipSide: side } = at.dataset;
  layer.children[0]!.textContent = text;
  layer.children[1]!.textContent = keys;
  layer.showPopover();
  const box = at.getBoundingClientRect();
  const { width, height } = layer.getBoundingClientRect();
  const isBeside = side === 'right' && box.right + GAP + width < innerWidth;
  const above = box.top - GAP - height;
  const left = isBeside ? box.right + GAP : box.left + box.width / 2 - width / 2;
  const top = isBeside ? box.top + box.height / 2 - height / 2 : above > 0 ? above : box.bottom + GAP;
  layer.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
  layer.style.top = `${top}px`;
}
