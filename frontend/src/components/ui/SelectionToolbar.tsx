/** What can be done with what is selected, over the list. */

import { X } from 'lucide-react';
import type { CSSProperties, ReactNode } from 'react';
import { t } from '../../shared/i18n';
import { Button } from './Button';
import { cn } from './cn';

interface Props {
  count: number;
  /** Instead of the number: how far an action is. */
  progress?: string | undefined;
  onClear: () => void;
  className?: string;
  style?: CSSProperties;
  children: ReactNode;
}

export function SelectionToolbar({ count, progress, onClear, className, style, children }: Props) {
  return (
    <div
      role="toolbar"
      aria-label={t('common.selection.title')}
      style={style}
      className={cn(
        'z-20 flex w-max max-w-[calc(100%-1rem)] items-start gap-1 rounded-lg border border-border bg-popover p-1.5 shadow-lg',
        'max-sm:fixed! max-sm:inset-x-2! max-sm:bottom-17! max-sm:w-auto max-sm:max-w-none! max-sm:translate-x-0!',
        className,
      )}>
      {/* On phones the actions are icons: their text stays their name. */}
      <div className="flex min-w-0 grow flex-wrap items-center gap-1 max-sm:gap-x-0 max-sm:[&>button]:min-h-11 max-sm:[&>button]:min-w-9 max-sm:[&>button]:gap-0 max-sm:[&>button]:px-0 max-sm:[&>button]:text-[0px]">
        <span role="status" className="px-2 font-semibold whitespace-nowrap max-sm:px-1">
          {progress ?? t('common.selection.count', { count })}
        </span>
        {children}
      </div>
      <Button
        kind="quiet"
        icon={X}
        label={t('common.selection.clear')}
        className="max-sm:min-h-11 max-sm:min-w-9"
        onClick={onClear}
      />
    </div>
  );
}
